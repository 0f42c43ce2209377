"""The test bed: a real Kubernetes cluster on one Linux machine, without Docker.

The control plane runs on the host; a node is a network, mount and PID namespace with containerd,
kubelet, kube-proxy and a NetworkPolicy engine of its own. `python -m bed` is the command,
`bed.cluster.Bed` the same in Python, `bed.pytest_plugin` the fixtures.

What is heavy is made once and kept in the cache (`cache.py`): programs (`packages.py`,
`binaries.py`), the base image (`baseimage.py`), images (`images.py`) and containerd's store with
those images in it (`imagestore.py`). What lives is found again by names and by a mark in each
process's environment (`processes.py`), so that nothing survives `down`, whatever was killed before.
"""

"""Devices of an engine: how its container reaches them, and what the scheduler counts.

A privileged container sees all devices of its node; which of them an engine uses is set by
its environment, or by the device plugin that the resource is of.
"""

from __future__ import annotations

from moriio_operator.api.engine import EngineRole
from moriio_operator.build.pod import ContainerPatch, Contribution

# Devices as the host has them: kind, path, type that the kubelet checks before it starts the pod.
_DEVICES = (
    ("infiniband", "/dev/infiniband", "Directory"),
    ("kfd", "/dev/kfd", "CharDevice"),
    ("dri", "/dev/dri", "Directory"),
)


def privileged() -> Contribution:
    """Mount the devices of the node into a privileged container."""
    return Contribution(
        "devices",
        main=ContainerPatch(
            fields={"securityContext": {"privileged": True, "capabilities": {"add": ["IPC_LOCK"]}}},
            mounts=[{"name": name, "mountPath": path} for name, path, _ in _DEVICES],
        ),
        volumes=[{"name": n, "hostPath": {"path": p, "type": t}} for n, p, t in _DEVICES],
    )


def resources(engine: EngineRole) -> Contribution:
    """Ask for the resources of a role and for those of its devices, in one.

    A user may name a device's resource among the others as well; the device's own count holds.
    """
    given = engine.resources
    requests = dict(given.requests or {}) if given else {}
    limits = dict(given.limits or {}) if given else {}
    gpu, rdma = engine.devices.gpu, engine.devices.rdma
    # An extended resource is asked for by its limit; the request follows it.
    if gpu is not None and gpu.resource_name is not None:
        limits[gpu.resource_name] = str(gpu.count)
    if rdma is not None:
        limits[rdma.resource_name] = str(rdma.count)
    patch = ContainerPatch(resources={"requests": requests, "limits": limits})
    return Contribution("resources", main=patch)

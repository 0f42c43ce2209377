"""What an engine pod needs more where it shares the node's namespaces: network, IPC and PIDs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moriio_operator.api import names
from moriio_operator.build.restricted import RESTRICTED
from moriio_operator.stack.vllm_moriio.ports import placeholder

_SMALL = {"cpu": "500m", "memory": "128Mi"}


def network(offsets: Mapping[str, int], image: str) -> dict[str, Any]:
    """Give the part of a pod's spec that puts it on the host network.

    A port that a process outside of Kubernetes holds is known to no scheduler, and an engine that
    does not get one of its handshake ports waits for ever. So each is tried before it starts.
    """
    arguments = ["preflight"]
    for name in offsets:
        arguments += ["--port", placeholder(name)]
    return {
        "hostNetwork": True,
        # Names inside of the cluster are still to be found, such as a model store's.
        "dnsPolicy": "ClusterFirstWithHostNet",
        "initContainers": [
            {
                "name": names.CONTAINER_PREFLIGHT,
                "image": image,
                "args": arguments,
                "securityContext": RESTRICTED,
                # As much as its engine asks for at the least, so it costs nothing; and as much as
                # it may use, so that a pod that is guaranteed its resources stays so.
                "resources": {"requests": _SMALL, "limits": _SMALL},
                "terminationMessagePolicy": "FallbackToLogsOnError",
            }
        ],
    }


def one_node(name: str, revision: str) -> dict[str, Any]:
    """Give the part that lets engines hand each other GPU memory: one node, its IPC and its PIDs.

    Source: HIP's IPC handles are opened by way of a socket that is named by process, so all three
    namespaces must be one (ROCm/rocm-aic, pull request 88).
    """
    labels = {names.LABEL_DEPLOYMENT: name, names.LABEL_REVISION: revision}
    labels[names.LABEL_COMPONENT] = names.COMPONENT_ENGINE
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    return {
        "hostIPC": True,
        "hostPID": True,
        "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
    }

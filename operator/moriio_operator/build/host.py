"""What an engine pod needs more where it shares the node's namespaces: network, IPC and PIDs."""

from __future__ import annotations

from collections.abc import Mapping

from moriio_operator.api import names
from moriio_operator.api.ports import placeholder
from moriio_operator.build.pod import RESTRICTED, Contribution

_SMALL = {"cpu": "500m", "memory": "128Mi"}


def network(offsets: Mapping[str, int], image: str) -> Contribution:
    """Put a pod on the host network, and try its ports there before its engine starts.

    A port that a process outside of Kubernetes holds is known to no scheduler, and an engine that
    does not get one of its handshake ports waits for ever. So each is tried before it starts.
    """
    arguments = ["preflight"]
    for name in offsets:
        arguments += ["--port", placeholder(name)]
    preflight = {
        "name": names.CONTAINER_PREFLIGHT,
        "image": image,
        "args": arguments,
        "securityContext": RESTRICTED,
        # As much as its engine asks for at the least, so it costs nothing; and as much as it may
        # use, so that a pod that is guaranteed its resources stays so.
        "resources": {"requests": _SMALL, "limits": _SMALL},
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    return Contribution(
        "host network",
        # Names inside of the cluster are still to be found, such as a model store's.
        fields={"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"},
        init_containers=[preflight],
    )


def one_node(name: str, revision: str) -> Contribution:
    """Let engines hand each other GPU memory: one node, its IPC and its PIDs.

    Source: HIP's IPC handles are opened by way of a socket that is named by process, so all three
    namespaces must be one (ROCm/rocm-aic, pull request 88).
    """
    labels = {names.LABEL_DEPLOYMENT: name, names.LABEL_REVISION: revision}
    labels[names.LABEL_COMPONENT] = names.COMPONENT_ENGINE
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    return Contribution("one node", fields={"hostIPC": True, "hostPID": True}, pod_affinity=[term])

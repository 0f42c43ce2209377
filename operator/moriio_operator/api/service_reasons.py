"""What the reasons of ports, engines, routers and progress mean: why a service is not ready.

Rows stand in the order of the page that is generated from them. A reason has a row for each group
of conditions on which it means the same; those without a condition say why an engine ended.
"""

from __future__ import annotations

from collections.abc import Iterator

from moriio_operator.api.reasons import (
    CONTAINER_FAILURES,
    FAILED_CREATE,
    PULL_FAILURES,
    UNSCHEDULABLE,
    Explanation,
    Reason,
)
from moriio_operator.api.status import ConditionType

_PORTS = (ConditionType.PORTS_ALLOCATED,)
_ENGINES = (ConditionType.PREFILL_READY, ConditionType.DECODE_READY)
_ROUTER = (ConditionType.ROUTER_READY,)
_PROGRESSING = (ConditionType.PROGRESSING,)
_READY = (ConditionType.READY,)

_NOTHING = "Nothing to do."
_SEE_ACCEPTED = "See Accepted."
_SEE_ENGINES = "See PrefillReady and DecodeReady."
_LABELS = (
    "Leave the labels `moriio.dev/*` of engine pods as they are; another engine takes its place."
)


def _each(
    reasons: tuple[str, ...], conditions: tuple[ConditionType, ...], cause: str, remedy: str
) -> Iterator[Explanation]:
    """Explain several reasons that mean the same of a False condition."""
    for reason in reasons:
        yield Explanation(reason, conditions, "False", cause, remedy)


EXPLANATIONS: tuple[Explanation, ...] = (
    Explanation(
        Reason.ALLOCATED, _PORTS, "True",
        "Every engine that is created has its port block.",
        _NOTHING,
    ),
    Explanation(
        Reason.PORTS_EXHAUSTED, _PORTS, "False",
        "The range has no free port block: engines hold the blocks, or engines are still running "
        "that know who held them ([ports.md](ports.md)).",
        "Widen `spec.network.portRange`, let the admin widen `ports` in the chart's values, or "
        "delete the engine that has run longest.",
    ),
    Explanation(
        Reason.HOST_PORT_TAKEN, _PORTS, "False",
        "No node takes the engine, and on some of them another pod holds a port of its block; it "
        "is replaced by an engine with other ports, at once and then more slowly (up to 300 s).",
        "Wait; if it persists, free ports of the range ([ports.md](ports.md) shows how to find "
        "their holders), or widen the range.",
    ),
    Explanation(
        Reason.PORT_IN_USE, _PORTS, "False",
        "A process that Kubernetes does not know of holds a port of the block on the node; the "
        "engine is replaced by one with other ports.",
        "Wait; if it persists, find the process (`ss -ltnp` on the node).",
    ),
    Explanation(
        Reason.NO_ENGINES, _PORTS, "Unknown",
        "No engine has been created yet.",
        _SEE_ACCEPTED,
    ),
    Explanation(
        Reason.ALL_READY, _ENGINES, "True",
        "All desired engines of the role serve.",
        _NOTHING,
    ),
    Explanation(
        Reason.ENGINE_ENDED, _ENGINES, "False",
        "An engine, or a sidecar in its pod, exited; the message has its exit code and the end of "
        "its log.",
        "Fix what the log reports; a changed spec starts afresh.",
    ),
    Explanation(
        Reason.ADDRESS_NOT_IPV4, _ENGINES, "False",
        "The pod's first address is IPv6, and MORI supports IPv4 only.",
        "Use nodes and a pod network whose first address is IPv4.",
    ),
    Explanation(
        UNSCHEDULABLE, _ENGINES, "False",
        "No node fits; the message is the scheduler's.",
        "Free GPUs, or change the scheduling fields.",
    ),
    *_each(
        PULL_FAILURES, _ENGINES,
        "The image cannot be pulled.",
        "Correct `spec.engine.image`, or name `imagePullSecrets`.",
    ),
    *_each(
        CONTAINER_FAILURES, _ENGINES,
        "A container cannot be created; the message is the kubelet's.",
        "Fix what the message names.",
    ),
    Explanation(
        Reason.STARTING, _ENGINES, "False",
        "Engines are being set up, or load the model; the message names the state of each.",
        "Wait for an engine that is Starting, which `startupTimeoutSeconds` bounds; for one that "
        "stays Pending `kubectl describe pod` says more (a device file that the node lacks, a "
        "volume that does not attach, a long pull).",
    ),
    Explanation(
        Reason.UNREADY, _ENGINES, "False",
        "An engine that has served does not answer its health check.",
        "Look at its log; its liveness probe ends it if this persists.",
    ),
    Explanation(
        Reason.AVAILABLE, _ROUTER, "True",
        "A router knows a prefill and a decode engine that serve.",
        _NOTHING,
    ),
    Explanation(
        Reason.WAITING_FOR_ENGINES, _ROUTER, "False",
        "The routers do not know a prefill and a decode engine that serve yet.",
        _SEE_ENGINES,
    ),
    Explanation(
        FAILED_CREATE, _ROUTER, "False",
        "The Deployment's controller may not create router pods, because of a quota or a "
        "pod-security level, say.",
        "Change what the API server's message names.",
    ),
    Explanation(
        Reason.STARTING, _ROUTER, "False",
        "The router Deployment has not been created yet.",
        "Wait, or see Accepted.",
    ),
    Explanation(
        Reason.ROUTERS_NOT_READY, _ROUTER, "False",
        "Both roles serve, but no router pod is ready: its image, its resources or its node may be "
        "the cause.",
        "Look at the pods of the Deployment that the message names.",
    ),
    Explanation(
        Reason.SETTLED, _PROGRESSING, "False",
        "Nothing is under way.",
        _NOTHING,
    ),
    Explanation(
        Reason.NOT_ACCEPTED, _PROGRESSING, "False",
        "The spec is not acted on.",
        _SEE_ACCEPTED,
    ),
    Explanation(
        Reason.STARTING_ENGINES, _PROGRESSING, "True",
        "Engines or routers are being started or replaced.",
        "Wait.",
    ),
    Explanation(
        Reason.DRAINING_OLD_REVISION, _PROGRESSING, "True",
        "The spec changed in a way that needs new engines, and the old ones finish their requests "
        "first.",
        "Wait; `rollout.drainTimeoutSeconds` bounds it.",
    ),
    Explanation(
        Reason.DRAIN_STUCK, _PROGRESSING, "True",
        "An engine of the old revision should have ended long ago, so its node is out of reach.",
        "Once the node is known to be dead, delete the Node object, or the pod with `--force`.",
    ),
    Explanation(
        Reason.SERVING, _READY, "True",
        "Requests are served; the message names what is still missing.",
        _NOTHING,
    ),
    Explanation(
        Reason.NO_ENGINE, _READY, "False",
        "A role has no engine that serves.",
        _SEE_ENGINES,
    ),
    *_each(
        (Reason.WAITING_FOR_ENGINES, Reason.ROUTERS_NOT_READY, FAILED_CREATE, Reason.STARTING),
        _READY,
        "Engines of both roles serve, but no router does.",
        "See RouterReady.",
    ),
    Explanation(
        Reason.ENDED, (), None,
        "The pod ended, and its status does not say why.",
        "Look at the Events of the pod and of its node.",
    ),
    Explanation(
        Reason.RELABELLED, (), None,
        "Somebody changed the role label of the pod, which would register it in the other role.",
        _LABELS,
    ),
    Explanation(
        Reason.UNKNOWN_REVISION, (), None,
        "The revision label of the pod names a revision that does not exist: somebody changed the "
        "label, or an operator created the pod when the revision had already ended.",
        _LABELS,
    ),
    Explanation(
        Reason.PORTS_DOUBLED, (), None,
        "Two operator processes gave the same ports to two engines in the moment of a handover.",
        "Wait: the engine that no node has yet is replaced.",
    ),
)  # fmt: skip

"""The reasons of conditions and Events, each a CamelCase word that programs may compare.

They are API: a reason keeps its spelling. What each one means, and what to do about it, is a row of
`spec_reasons` or of `service_reasons`; `docs/conditions.md` is generated from them.

Two kinds of reasons are no members. Kubernetes' own, such as `ErrImagePull`, are passed on as they
were read. What the end of an engine's log stands for is a fact of vLLM's versions, so those reasons
are rows of `facts.signatures`, and the page joins them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from moriio_operator.api.status import ConditionType


class Reason(StrEnum):
    """A reason that the operator itself gives."""

    # Accepted.
    ACCEPTED = "Accepted"
    REFUSED_BY_POLICY = "RefusedByPolicy"
    TEMPLATE_REFUSED = "TemplateRefused"
    POD_SECURITY_FORBIDS = "PodSecurityForbids"
    OVER_QUOTA = "OverQuota"
    ENGINE_REWRITTEN = "EngineRewritten"
    POD_FORBIDDEN = "PodForbidden"
    ADMISSION_FAILED = "AdmissionFailed"
    CHILD_REFUSED = "ChildRefused"
    NAME_TAKEN = "NameTaken"
    OUTSIDE_CONTRACT = "OutsideContract"
    VERSION_TOO_OLD = "VersionTooOld"
    CONNECTOR_UNSUPPORTED = "ConnectorUnsupported"

    # ContractChecked.
    CHECKED = "Checked"
    VERSION_NEWER = "VersionNewer"
    VERSION_UNSTATED = "VersionUnstated"
    FACTS_UNSTATED = "FactsUnstated"
    FACTS_DIFFER = "FactsDiffer"

    # PortsAllocated.
    ALLOCATED = "Allocated"
    PORTS_EXHAUSTED = "PortsExhausted"
    HOST_PORT_TAKEN = "HostPortTaken"
    PORT_IN_USE = "PortInUse"
    NO_ENGINES = "NoEngines"

    # PrefillReady and DecodeReady.
    ALL_READY = "AllReady"
    ENGINE_ENDED = "EngineEnded"
    ADDRESS_NOT_IPV4 = "AddressNotIPv4"
    STARTING = "Starting"
    UNREADY = "Unready"

    # RouterReady.
    AVAILABLE = "Available"
    WAITING_FOR_ENGINES = "WaitingForEngines"
    ROUTERS_NOT_READY = "RoutersNotReady"

    # Progressing.
    SETTLED = "Settled"
    NOT_ACCEPTED = "NotAccepted"
    STARTING_ENGINES = "StartingEngines"
    DRAINING_OLD_REVISION = "DrainingOldRevision"
    DRAIN_STUCK = "DrainStuck"

    # Ready.
    SERVING = "Serving"
    NO_ENGINE = "NoEngine"

    # Why an engine ended, in the message of EngineEnded.
    ENDED = "Ended"
    RELABELLED = "Relabelled"
    UNKNOWN_REVISION = "UnknownRevision"
    PORTS_DOUBLED = "PortsDoubled"


# Kubernetes' own reasons for a container that does not start without somebody's help.
PULL_FAILURES = ("ErrImagePull", "ImagePullBackOff")
CONTAINER_FAILURES = (
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "InvalidImageName",
    "ImageInspectError",
    "ErrImageNeverPull",
)
# Of a pod that the scheduler cannot place, and of a Deployment that may not make pods.
UNSCHEDULABLE = "Unschedulable"
FAILED_CREATE = "FailedCreate"


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a reason means on some conditions, with the status that it goes with.

    Without a condition it says why an engine ended, in the message of `EngineEnded`.
    """

    reason: str
    conditions: tuple[ConditionType, ...]
    status: Literal["True", "False", "Unknown"] | None
    cause: str
    remedy: str


# Why each condition is True, in the order in which a service comes up.
TRUE_WHEN: dict[ConditionType, str] = {
    ConditionType.ACCEPTED: "The spec is acted on.",
    ConditionType.CONTRACT_CHECKED: (
        "Every rule of vLLM's contract that concerns the spec could be checked; any other status "
        "keeps nothing from serving."
    ),
    ConditionType.PORTS_ALLOCATED: (
        "No engine lacks ports: each one that is created has a port block of its own."
    ),
    ConditionType.PREFILL_READY: "As many prefill engines serve as are desired.",
    ConditionType.DECODE_READY: "As many decode engines serve as are desired.",
    ConditionType.ROUTER_READY: (
        "At least one router knows a prefill and a decode engine that serve."
    ),
    ConditionType.PROGRESSING: "Something is under way; the message says what.",
    ConditionType.READY: (
        "A client's request would be served now: one engine of each role and one router suffice."
    ),
}

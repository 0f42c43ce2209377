"""An engine incarnation as it was observed: a pod, read once into what the planner asks about."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from moriio_operator.api import names
from moriio_operator.api.names import Role
from moriio_operator.api.status import EngineState
from moriio_operator.contract.ports import HANDSHAKE, HTTP
from moriio_operator.plan.ports import PortBlock

# A container that waits for these reasons will not start without somebody's help.
_STUCK = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "RunContainerError",
    }
)
RELABELLED, UNKNOWN_REVISION = "Relabelled", "UnknownRevision"
_MESSAGE_LENGTH = 2000
# A kubelet needs a moment after the grace to kill, clean up and report.
_KUBELET = timedelta(seconds=60)
_NAME = re.compile(rf".+-(?P<role>{'|'.join(names.ROLES)})-(?P<serial>[0-9]+)")


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why an engine ended, or why it does not start."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine pod."""

    pod: str
    uid: str
    role: Role
    revision: str
    ports: PortBlock
    state: EngineState
    serial: int
    node: str | None = None
    address: str | None = None
    trouble: Trouble | None = None
    # The container that ended without a termination message: only its log tells why.
    mute: str | None = None
    created: datetime | None = None
    # When a stopping engine's grace ends; it outlives that only if its kubelet is out of reach.
    gone_by: datetime | None = None

    def outlives_its_grace(self, now: datetime) -> bool:
        """Tell whether it should have ended by now: its kubelet is out of reach."""
        return self.gone_by is not None and now > self.gone_by + _KUBELET

    def stops_in_time(self, now: datetime) -> bool:
        """Tell whether it stops, and can be waited for."""
        return self.state is EngineState.TERMINATING and not self.outlives_its_grace(now)

    @property
    def failed(self) -> bool:
        """Whether it ended by itself, and not because somebody edited its labels."""
        reason = self.trouble.reason if self.trouble else ""
        return self.state is EngineState.ENDED and reason not in (RELABELLED, UNKNOWN_REVISION)

    @property
    def leaves(self) -> bool:
        """Whether it is no longer counted as one of the wished-for engines."""
        return self.state in (EngineState.TERMINATING, EngineState.ENDED)


def from_pod(pod: dict[str, Any]) -> Engine | None:
    """Read an engine from its pod; None for a pod that is no engine of ours, whatever its labels.

    Role, serial and ports come from what nobody can change, the name and the container's ports;
    labels are anybody's to edit. Without one of its own an engine is taken aside, as Kubernetes
    has it for pods of any controller: it is left alone, and another takes its place.
    """
    metadata, status = pod["metadata"], pod.get("status") or {}
    named = _NAME.fullmatch(metadata["name"])
    ports = _ports(pod)
    labels = metadata.get("labels") or {}
    revision, role = labels.get(names.LABEL_REVISION), labels.get(names.LABEL_ROLE)
    if named is None or ports is None or revision is None or role is None:
        return None
    if role != named["role"] and not metadata.get("deletionTimestamp"):
        # The Service of the other role would give it to the routers.
        state = EngineState.ENDED
        trouble: Trouble | None = _relabelled(role)
    else:
        state = _state(metadata, status)
        trouble = _trouble(status, state)
    return Engine(
        pod=metadata["name"],
        uid=metadata["uid"],
        role=Role(named["role"]),
        revision=revision,
        ports=ports,
        state=state,
        serial=int(named["serial"]),
        node=pod["spec"].get("nodeName"),
        address=status.get("podIP"),
        trouble=trouble,
        mute=_mute(status) if state is EngineState.ENDED else None,
        created=_time(metadata.get("creationTimestamp")),
        gone_by=_time(metadata.get("deletionTimestamp")),
    )


def of_no_revision(engine: Engine, revision: str) -> Engine:
    """Take an engine whose revision nobody knows for one of `revision` that ended.

    Its label was edited, or an operator made it that had slept through the end of its revision.
    Either way it goes alone: taken at its word, it would drain all others.
    """
    if engine.state is EngineState.TERMINATING:
        return replace(engine, revision=revision)
    text = f"its label {names.LABEL_REVISION} names {engine.revision!r}, which is not there"
    ended = Trouble(UNKNOWN_REVISION, f"{text}: it is replaced")
    return replace(engine, revision=revision, state=EngineState.ENDED, trouble=ended, mute=None)


def _relabelled(role: str) -> Trouble:
    text = f"somebody changed its label {names.LABEL_ROLE} to {role!r}: it is replaced"
    return Trouble(RELABELLED, text)


def with_last_words(engine: Engine, log: str) -> Engine:
    """Give a mute engine with the end of its log as its last words."""
    if engine.trouble is None or not log.strip():
        return engine
    told = f"{engine.trouble.message}; its log ends: {_tail(log)}"
    return replace(engine, trouble=Trouble(engine.trouble.reason, told), mute=None)


def _mute(status: dict[str, Any]) -> str | None:
    """Name the container that ended without a message.

    vLLM exits with 0 when its engine core dies, and the kubelet keeps the log's end of failures
    only.
    """
    container = _ended_container(status)
    if container is None or container["state"]["terminated"].get("message"):
        return None
    return str(container["name"])


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _ports(pod: dict[str, Any]) -> PortBlock | None:
    """Read the block back from the pod: what was built is the record, whatever is built today."""
    for container in pod["spec"]["containers"]:
        if container["name"] == names.CONTAINER_ENGINE:
            ports = {p.get("name", ""): p["containerPort"] for p in container.get("ports") or []}
            if HTTP in ports and HANDSHAKE in ports:
                return PortBlock(ports[HTTP], _contiguous(ports[HTTP], set(ports.values())))
    return None


def _contiguous(base: int, numbers: set[int]) -> int:
    """Count the numbers from the first on without a gap: a webhook may have added others."""
    size = 0
    while base + size in numbers:
        size += 1
    return size


def _ended_container(status: dict[str, Any]) -> dict[str, Any] | None:
    """Find a container that ended, the engine first: none starts again, so the pod is at its end.

    The pod's phase does not tell: while another container lives it stays Running.
    """
    ended = [
        container
        for container in status.get("containerStatuses") or []
        if "terminated" in (container.get("state") or {})
    ]
    ended.sort(key=lambda container: container["name"] != names.CONTAINER_ENGINE)
    return ended[0] if ended else None


def _state(metadata: dict[str, Any], status: dict[str, Any]) -> EngineState:
    if metadata.get("deletionTimestamp"):
        return EngineState.TERMINATING
    if status.get("phase") in ("Failed", "Succeeded") or _ended_container(status) is not None:
        return EngineState.ENDED
    if _condition(status, "Ready").get("status") == "True":
        return EngineState.READY
    for container in status.get("containerStatuses") or []:
        if container["name"] == names.CONTAINER_ENGINE and "running" in container.get("state", {}):
            return EngineState.UNREADY if container.get("started") else EngineState.STARTING
    return EngineState.PENDING


def _condition(status: dict[str, Any], kind: str) -> dict[str, Any]:
    for condition in status.get("conditions") or []:
        if condition["type"] == kind:
            return dict(condition)
    return {}


def _trouble(status: dict[str, Any], state: EngineState) -> Trouble | None:
    if state is EngineState.ENDED:
        return _end(status)
    if state is EngineState.READY:
        return None
    for container in status.get("containerStatuses") or []:
        found = _container_trouble(container)
        if found is not None:
            return found
    scheduled = _condition(status, "PodScheduled")
    if scheduled.get("status") == "False":
        reason = scheduled.get("reason", "Unschedulable")
        return Trouble(reason, _tail(scheduled.get("message", "")))
    return None


def _container_trouble(container: dict[str, Any]) -> Trouble | None:
    """Find out why a container does not start."""
    waiting = (container.get("state") or {}).get("waiting") or {}
    if waiting.get("reason") not in _STUCK:
        return None
    return Trouble(waiting["reason"], _of(container) + _tail(waiting.get("message", "")))


def _of(container: dict[str, Any]) -> str:
    """Name the container, unless it is the one that everybody expects."""
    name = container["name"]
    return "" if name == names.CONTAINER_ENGINE else f"container {name}: "


def _end(status: dict[str, Any]) -> Trouble:
    container = _ended_container(status)
    ended = container["state"]["terminated"] if container else None
    words = _of(container) + _words(ended) if container and ended else ""
    if status.get("reason"):
        # Evicted, or refused by the kubelet: the pod tells why, the container only how.
        told = [_tail(status.get("message") or ""), words]
        return Trouble(status["reason"], "; ".join(filter(None, told)))
    if ended is None:
        return Trouble("Ended", "")
    return Trouble(ended.get("reason") or "Error", words)


def _words(ended: dict[str, Any]) -> str:
    tail = _tail(ended.get("message") or "")
    text = f"exit code {ended.get('exitCode')}"
    return f"{text}; its log ends: {tail}" if tail else text


def _tail(text: str) -> str:
    """Keep the end of a long text, where programs say why they stop."""
    text = text.strip()
    return text if len(text) <= _MESSAGE_LENGTH else "..." + text[-_MESSAGE_LENGTH:]

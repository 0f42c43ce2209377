"""An engine incarnation as it was observed: a pod, read once into what the planner asks about."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from moriio_operator.api import names
from moriio_operator.api.names import Role
from moriio_operator.api.status import EngineState
from moriio_operator.contract.ports import HANDSHAKE, HTTP, PortBlock

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
_MESSAGE_LENGTH = 2000
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
    # When a stopping engine's grace ends; it outlives that only if its kubelet is out of reach.
    gone_by: datetime | None = None

    @property
    def leaves(self) -> bool:
        """Whether it is no longer counted as one of the wished-for engines."""
        return self.state in (EngineState.TERMINATING, EngineState.ENDED)


def from_pod(pod: dict[str, Any]) -> Engine | None:
    """Read an engine from its pod; None for a pod that is no engine of ours, whatever its labels.

    Role, serial and ports come from what nobody can change, the name and the container's ports;
    labels and annotations are anybody's to edit.
    """
    metadata, status = pod["metadata"], pod.get("status") or {}
    named = _NAME.fullmatch(metadata["name"])
    ports = _ports(pod)
    revision = (metadata.get("labels") or {}).get(names.LABEL_REVISION)
    if named is None or ports is None or revision is None:
        return None
    state = _state(metadata, status)
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
        trouble=_trouble(status, state),
        gone_by=_time(metadata.get("deletionTimestamp")),
    )


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _ports(pod: dict[str, Any]) -> PortBlock | None:
    """Read the block back from the pod: what was built is the record, whatever is built today."""
    for container in pod["spec"]["containers"]:
        if container["name"] == names.CONTAINER_ENGINE:
            declared = {p.get("name", ""): p["containerPort"] for p in container.get("ports") or []}
            ranks = sum(1 for name in declared if name.startswith(HANDSHAKE))
            if HTTP in declared and ranks:
                return PortBlock(base=declared[HTTP], ranks=ranks)
    return None


def _engine_status(status: dict[str, Any]) -> dict[str, Any]:
    for container in status.get("containerStatuses") or []:
        if container["name"] == names.CONTAINER_ENGINE:
            return dict(container)
    return {}


def _state(metadata: dict[str, Any], status: dict[str, Any]) -> EngineState:
    container = _engine_status(status)
    state = container.get("state") or {}
    if metadata.get("deletionTimestamp"):
        return EngineState.TERMINATING
    # A sidecar keeps the pod's phase at Running when the engine is gone, so the container counts.
    if status.get("phase") in ("Failed", "Succeeded") or "terminated" in state:
        return EngineState.ENDED
    if _condition(status, "Ready").get("status") == "True":
        return EngineState.READY
    if "running" not in state:
        return EngineState.PENDING
    return EngineState.UNREADY if container.get("started") else EngineState.STARTING


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
    """Find out why a container does not run; one that ended never runs again in such a pod."""
    state = container.get("state") or {}
    prefix = "" if container["name"] == names.CONTAINER_ENGINE else f"{container['name']}: "
    waiting = state.get("waiting") or {}
    if waiting.get("reason") in _STUCK:
        return Trouble(waiting["reason"], prefix + _tail(waiting.get("message", "")))
    if prefix and "terminated" in state:
        return Trouble("SidecarEnded", prefix + _words(state["terminated"]))
    return None


def _end(status: dict[str, Any]) -> Trouble:
    ended = (_engine_status(status).get("state") or {}).get("terminated")
    words = "" if ended is None else _words(ended)
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

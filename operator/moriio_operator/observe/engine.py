"""An engine as it was observed: a pod, read once into what the planner asks about.

A pod that does not read as an engine was taken aside, as Kubernetes has it for pods of any
controller: it is left alone, and another takes its place.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from moriio_operator.api import names
from moriio_operator.api.ports import PortBlock
from moriio_operator.api.reasons import Reason
from moriio_operator.api.status import EngineState, Status
from moriio_operator.facts.terms import ROLES, Role
from moriio_operator.kube.objects import Object
from moriio_operator.observe.failure import (
    Failure,
    condition,
    ended_container,
    failure_of,
    misses_ports,
    silent_container,
    with_log,
)
from moriio_operator.stack.stack import Stack
from moriio_operator.stack.table import DEFAULT

# An end that says nothing about how the next engine will fare.
_NO_FAILURES = (Reason.RELABELLED, Reason.UNKNOWN_REVISION, Reason.PORTS_DOUBLED)
# A kubelet needs a moment after the grace to kill, clean up and report.
_KUBELET = timedelta(seconds=60)
_NAME = re.compile(rf".+-(?P<role>{'|'.join(ROLES)})-(?P<serial>[0-9]+)")


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
    # Whether its ports are the node's, and so shared with every other engine there.
    host_network: bool = False
    node: str | None = None
    address: str | None = None
    failure: Failure | None = None
    # The container that ended without a termination message: only its log tells why.
    silent_container: str | None = None
    created: datetime | None = None
    # When a stopping engine's grace ends; it outlives that only if its kubelet is out of reach.
    deletion_deadline: datetime | None = None

    def exceeds_grace(self, now: datetime) -> bool:
        """Return whether it should have ended by now: its kubelet is out of reach."""
        return self.deletion_deadline is not None and now > self.deletion_deadline + _KUBELET

    def within_grace(self, now: datetime) -> bool:
        """Return whether it stops, and can be waited for."""
        return self.state is EngineState.TERMINATING and not self.exceeds_grace(now)

    @property
    def failed(self) -> bool:
        """Whether it ended by itself, and not because somebody edited its labels, say."""
        reason = self.failure.reason if self.failure else ""
        return self.state is EngineState.ENDED and reason not in _NO_FAILURES

    @property
    def is_leaving(self) -> bool:
        """Whether it no longer counts: it terminates, or has ended."""
        return self.state in (EngineState.TERMINATING, EngineState.ENDED)


def from_pod(pod: dict[str, Any], stack: Stack = DEFAULT) -> Engine | None:
    """Read an engine from its pod; None for a pod that is no engine of ours, whatever its labels.

    Role, serial and ports come from what nobody can change, the name and the container's ports;
    labels are anybody's to edit. Without one of its own an engine is taken aside, as Kubernetes
    has it for pods of any controller: it is left alone, and another takes its place.
    `stack` knows what its last words stand for; who does not ask why it ended needs none.
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
        failure: Failure | None = _relabelled(role)
    else:
        state = _state(metadata, status)
        failure = failure_of(status, state, stack)
    portless = misses_ports(pod) if state is EngineState.PENDING else None
    if portless is not None:
        # It would wait for as long as the others hold them; another block may be free at once.
        state, failure = EngineState.ENDED, portless
    return Engine(
        pod=metadata["name"],
        uid=metadata["uid"],
        role=Role(named["role"]),
        revision=revision,
        ports=ports,
        state=state,
        serial=int(named["serial"]),
        host_network=bool(pod["spec"].get("hostNetwork")),
        node=pod["spec"].get("nodeName"),
        address=status.get("podIP"),
        failure=failure,
        silent_container=silent_container(status) if state is EngineState.ENDED else None,
        created=_time(metadata.get("creationTimestamp")),
        deletion_deadline=_time(metadata.get("deletionTimestamp")),
    )


def of_no_revision(engine: Engine, revision: str) -> Engine:
    """Take an engine whose revision nobody knows for one of `revision` that ended.

    Its label was edited, or an operator made it that had slept through the end of its revision.
    Either way it goes alone: taken at its word, it would drain all others.
    """
    if engine.state is EngineState.TERMINATING:
        return replace(engine, revision=revision)
    text = f"its label {names.LABEL_REVISION} names {engine.revision!r}, which is not there"
    ended = Failure(Reason.UNKNOWN_REVISION, f"{text}: it is replaced")
    return replace(
        engine, revision=revision, state=EngineState.ENDED, failure=ended, silent_container=None
    )


def with_duplicate_ports(engine: Engine, holder: Engine) -> Engine:
    """Take an engine that no node has yet for one that ended: another holds its ports."""
    text = f"its ports are also those of {holder.pod}, which came first: it is replaced"
    return replace(
        engine,
        state=EngineState.ENDED,
        failure=Failure(Reason.PORTS_DOUBLED, text),
        silent_container=None,
    )


def with_log_end(engine: Engine, log: str, stack: Stack = DEFAULT) -> Engine:
    """Give an engine that ended without a termination message with the end of its log."""
    if engine.failure is None or not log.strip():
        return engine
    speaker = stack if engine.silent_container == names.CONTAINER_ENGINE else None
    return replace(engine, failure=with_log(engine.failure, log, speaker), silent_container=None)


def _relabelled(role: str) -> Failure:
    text = f"somebody changed its label {names.LABEL_ROLE} to {role!r}: it is replaced"
    return Failure(Reason.RELABELLED, text)


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _ports(pod: dict[str, Any]) -> PortBlock | None:
    """Read the block back from the pod: what was built is the record, whatever is built today.

    The annotation says where the block is. Anybody may edit it, while the container's ports are
    there for good: so it counts as far as they bear it out. Pods of 0.1.0 have none; the first
    port of theirs is named `http`, and is never alone.
    """
    containers = pod["spec"]["containers"]
    ports = next((c.get("ports") for c in containers if c["name"] == names.CONTAINER_ENGINE), None)
    declared = {port["containerPort"]: port.get("name") for port in ports or []}
    annotations = pod["metadata"].get("annotations") or {}
    block = PortBlock.parse(annotations.get(names.ANNOTATION_PORTS) or "")
    if block is not None and declared.keys() >= set(block.numbers):
        return _contiguous(block.base, declared)
    first = next((number for number, name in declared.items() if name == "http"), None)
    found = None if first is None else _contiguous(first, declared)
    return found if found is not None and found.size > 1 else None


def _contiguous(port: int, declared: Container[int]) -> PortBlock:
    """Give the declared ports around one, up to a gap: a webhook may have added others beyond.

    All of them, since an annotation that was edited may name a part of a block.
    """
    first = last = port
    while first - 1 in declared:
        first -= 1
    while last + 1 in declared:
        last += 1
    return PortBlock(first, last - first + 1)


def _state(metadata: dict[str, Any], status: dict[str, Any]) -> EngineState:
    if metadata.get("deletionTimestamp"):
        return EngineState.TERMINATING
    if status.get("phase") in ("Failed", "Succeeded") or ended_container(status) is not None:
        return EngineState.ENDED
    if condition(status, "Ready").get("status") == "True":
        return EngineState.READY
    for container in status.get("containerStatuses") or []:
        if container["name"] == names.CONTAINER_ENGINE and "running" in container.get("state", {}):
            return EngineState.UNREADY if container.get("started") else EngineState.STARTING
    return EngineState.PENDING


def read_engines(
    pods: Iterable[Object], status: Status, known: Collection[str], asked: str, stack: Stack
) -> list[Engine]:
    """Give the engines.

    `known` are the revisions of which templates are stored, `asked` is the one that the spec asks
    for. An engine of any other revision has an edited label, unless the status recorded it so: then
    the templates of its revision were lost. `stack` knows what their last words stand for.
    """
    recorded = {engine.pod: engine.revision for engine in status.engines}
    found = []
    for engine in (from_pod(pod, stack) for pod in pods):
        if engine is None:
            continue
        if engine.revision in (asked, *known, recorded.get(engine.pod)):
            found.append(engine)
        else:
            found.append(of_no_revision(engine, recorded.get(engine.pod, asked)))
    return found

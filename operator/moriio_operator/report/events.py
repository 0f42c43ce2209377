"""Kubernetes Events for what an admin wants to see in `kubectl describe`: changes, not states."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from moriio_operator.api import names
from moriio_operator.api.reasons import Reason
from moriio_operator.api.status import Condition, ConditionType, Status
from moriio_operator.observe.engine import Engine

# The API server refuses longer notes; it counts bytes.
_NOTE_BYTES = 1024


@dataclass(frozen=True, slots=True)
class EventRecord:
    """One thing to tell."""

    type: Literal["Normal", "Warning"]
    reason: str
    action: str
    note: str


def of_transitions(old: Status, new: Status) -> Iterator[EventRecord]:
    """Report which conditions changed their status, or why a spec is refused now.

    Good news of one pass is one Event and bad news another, however many conditions changed.
    Conditions stand in the order in which a service comes up: the last good one says how far it has
    come, the first bad one why it does not come further.
    """
    before = {condition.type: condition for condition in old.conditions}
    changed = [now for now in new.conditions if _changed(before.get(now.type), now)]
    good = [condition for condition in changed if _is_good(condition)]
    bad = [condition for condition in changed if not _is_good(condition)]
    if good:
        yield EventRecord("Normal", good[-1].reason, "Reconcile", _note(good))
    if bad:
        yield EventRecord("Warning", bad[0].reason, "Reconcile", _note(bad))


def _is_good(condition: Condition) -> bool:
    # That something is under way, or is not, is no fault.
    return condition.status == "True" or condition.type == ConditionType.PROGRESSING


def _note(conditions: Sequence[Condition]) -> str:
    return "; ".join(f"{c.type} is {c.status}: {c.message}" for c in conditions)


def _changed(before: Condition | None, now: Condition) -> bool:
    if before is None:
        # A young deployment is not ready yet: no news, except that its spec is refused.
        return now.status == "True" or now.type == ConditionType.ACCEPTED
    if before.status != now.status:
        return True
    return now.type == ConditionType.ACCEPTED and before.message != now.message


def of_end(engine: Engine) -> EventRecord:
    """Report an engine that ended, and what it wrote last."""
    reason = engine.failure.reason if engine.failure else Reason.ENDED
    message = engine.failure.message if engine.failure else ""
    return EventRecord(
        "Warning", Reason.ENGINE_ENDED, "Replace", f"{engine.pod}: {reason}: {message}"
    )


def _cut(note: str) -> str:
    data = note.encode()
    if len(data) <= _NOTE_BYTES:
        return note
    return data[: _NOTE_BYTES - 3].decode(errors="ignore") + "..."


def event(resource: dict[str, Any], record: EventRecord, now: datetime) -> dict[str, Any]:
    """Make the Event object; its name is random, so no two collide."""
    metadata = resource["metadata"]
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "name": f"{metadata['name']}.{uuid.uuid4().hex[:16]}",
            "namespace": metadata["namespace"],
        },
        "eventTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": f"{names.GROUP}/{names.MANAGED_BY}",
        "reportingInstance": names.MANAGED_BY,
        "action": record.action,
        "reason": record.reason,
        "type": record.type,
        "note": _cut(record.note),
        "regarding": {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
        },
    }

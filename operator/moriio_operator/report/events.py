"""Kubernetes Events for what an admin wants to see in `kubectl describe`: changes, not states."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from moriio_operator.api import names
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
    """Tell which conditions changed their status, or why a spec is refused now."""
    before = {condition.type: condition for condition in old.conditions}
    for condition in new.conditions:
        if _changed(before.get(condition.type), condition):
            # Progressing=True and everything else=True are good news.
            good = condition.status == "True" or condition.type == ConditionType.PROGRESSING
            yield EventRecord(
                "Normal" if good else "Warning",
                condition.reason,
                "Reconcile",
                f"{condition.type} is {condition.status}: {condition.message}",
            )


def _changed(before: Condition | None, now: Condition) -> bool:
    if before is None:
        # A young deployment is not ready yet: no news, except that its spec is refused.
        return now.status == "True" or now.type == ConditionType.ACCEPTED
    if before.status != now.status:
        return True
    return now.type == ConditionType.ACCEPTED and before.message != now.message


def of_end(engine: Engine) -> EventRecord:
    """Report an engine that ended, and what it wrote last."""
    reason = engine.trouble.reason if engine.trouble else "Ended"
    message = engine.trouble.message if engine.trouble else ""
    return EventRecord("Warning", "EngineEnded", "Replace", f"{engine.pod}: {reason}: {message}")


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

"""The audit log as a ledger: who asked what, when it was answered, and with what code.

Read on from where the last reading ended, so that a look now and then stays cheap.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

_READS = frozenset({"get", "list"})
# Kept out of every count: watches are one a kind whatever happens, and the Lease has its own pace.
_NEVER_COUNTED = frozenset({"leases"})


@dataclass(frozen=True, slots=True)
class Entry:
    """One answered request about an object or a kind."""

    user: str
    verb: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int
    dry_run: bool
    # Seconds since the epoch, both by the API server's clock.
    received: float
    answered: float

    @property
    def made(self) -> bool:
        """Whether it made an object: a create, or an apply of what was not there."""
        return self.code == 201 and not self.dry_run

    @property
    def category(self) -> str:
        """What the table counts it as."""
        if self.verb in _READS:
            return "reads"
        if self.dry_run:
            return "dry runs"
        if self.subresource == "status":
            return "status writes"
        return "events" if self.resource == "events" else "other writes"

    @property
    def writes(self) -> bool:
        """Whether it may have changed something that is stored."""
        return self.category not in ("reads", "dry runs")


class Ledger:
    """All that was asked of the API server since the ledger was opened."""

    def __init__(self, audit_log: Path) -> None:
        self._log = audit_log
        self._offset = audit_log.stat().st_size
        self._entries: list[Entry] = []

    def entries(self, user: str | None = None, since: float = 0) -> list[Entry]:
        """Give what was asked, by one user or by all, oldest answer first."""
        self._read_on()
        return [e for e in self._entries if e.received >= since and user in (None, e.user)]

    def last_call(self, user: str) -> float:
        """Tell when a user was last answered; 0 if never."""
        return max((entry.answered for entry in self.entries(user)), default=0.0)

    def _read_on(self) -> None:
        with self._log.open("rb") as log:
            log.seek(self._offset)
            for line in log:
                if not line.endswith(b"\n"):
                    break  # the rest of it is still being written
                self._offset += len(line)
                self._entries += _entry(json.loads(line))


def _entry(event: dict[str, Any]) -> Iterator[Entry]:
    reference = event.get("objectRef")
    if event["stage"] != "ResponseComplete" or reference is None or event["verb"] == "watch":
        return
    if reference["resource"] in _NEVER_COUNTED:
        return
    yield Entry(
        user=event["user"]["username"],
        verb=event["verb"],
        resource=reference["resource"],
        subresource=reference.get("subresource", ""),
        namespace=reference.get("namespace", ""),
        name=reference.get("name", ""),
        code=event["responseStatus"]["code"],
        dry_run="dryRun=" in event["requestURI"],
        received=_time(event["requestReceivedTimestamp"]),
        answered=_time(event["stageTimestamp"]),
    )


def _time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()

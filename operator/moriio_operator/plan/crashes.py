"""The crash record of a role: when engines that end may have a successor.

At once after the first end, then slower and slower. The record is in the status, so an operator's
restart does not start a crash loop afresh, and each end is counted once: the status that counts it
is written before its pod is deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from moriio_operator.api.reasons import Reason
from moriio_operator.api.status import MESSAGE_MAX, EngineState, LastFailure, Status
from moriio_operator.facts.terms import Role
from moriio_operator.observe.engine import Engine

FIRST_S = 10
LONGEST_S = 300
# Engines that end further apart than this are not one crash loop.
FORGET_S = 600


@dataclass(frozen=True, slots=True)
class CrashRecord:
    """The crash record of a role in one revision, as it goes into the status."""

    count: int = 0
    time: datetime | None = None
    last: LastFailure | None = None


def newly_ended(status: Status, engines: Sequence[Engine]) -> tuple[Engine, ...]:
    """Find engines whose end is not in the status yet."""
    known = {e.pod for e in status.engines if e.state is EngineState.ENDED}
    return tuple(e for e in engines if e.state is EngineState.ENDED and e.pod not in known)


def carry_on(
    status: Status,
    revision: str,
    role: Role,
    engines: Sequence[Engine],
    desired: int,
    now: datetime,
) -> CrashRecord:
    """Carry the crash record of a role on, with its engines of this revision as they are now."""
    before = _recorded(status, revision, role)
    mine = [engine for engine in engines if engine.role is role and engine.revision == revision]
    ended = [engine for engine in newly_ended(status, mine) if engine.failed]
    if ended:
        again = any(_is_one_more(engine, before.time, now) for engine in ended)
        count = counted(before.count, before.time, now) if again else before.count
        last = _last_failure(max(ended, key=lambda engine: engine.serial))
        return CrashRecord(count, now if again else before.time, last)
    ready = sum(1 for engine in mine if engine.state is EngineState.READY)
    if ready >= desired:
        return CrashRecord(before.count, before.time, None)
    return _with_message(before, mine)


def delay_s(failures: int) -> int:
    """Seconds to wait after so many failures: 0, 10, 20, 40 ... 300."""
    if failures <= 1:
        return 0
    return int(min(FIRST_S * 2 ** min(failures - 2, 10), LONGEST_S))


def remaining_s(failures: CrashRecord, now: datetime) -> float:
    """Seconds until the next engine may be created; 0 when it may be now."""
    if failures.time is None:
        return 0.0
    return max(delay_s(failures.count) - abs(now - failures.time).total_seconds(), 0.0)


def counted(failures: int, last: datetime | None, now: datetime) -> int:
    """Count one more failure, or begin anew when the last one was long ago."""
    # Also an end in the future is not of this loop: a clock went back, on another node.
    if last is None or abs(now - last) > timedelta(seconds=FORGET_S):
        return 1
    return failures + 1


def _is_one_more(engine: Engine, last: datetime | None, now: datetime) -> bool:
    """Return whether an end is one more of a loop, and not of the incident that was counted before.

    A node that shuts down ends all its engines within seconds; only one that was made after the
    last end says anything about making the next.
    """
    if last is None or last > now:
        # Nothing to compare with: the first end, or one that a clock set wrong has stamped.
        return True
    return engine.created is None or engine.created >= last


def _last_failure(engine: Engine) -> LastFailure:
    failure = engine.failure
    message = failure.message if failure else ""
    return LastFailure(
        pod=engine.pod,
        reason=failure.reason if failure else Reason.ENDED,
        # The words of the pod, of its container and of its log together may be longer.
        message=message if len(message) <= MESSAGE_MAX else message[: MESSAGE_MAX - 3] + "...",
    )


def _with_message(before: CrashRecord, engines: Sequence[Engine]) -> CrashRecord:
    """Take in what is known by now of the engine that ended last: its log is read beside."""
    last = before.last
    for engine in engines:
        if (
            last is not None
            and engine.pod == last.pod
            and engine.failed
            and engine.silent_container is None
        ):
            return replace(before, last=_last_failure(engine))
    return before


def _recorded(status: Status, revision: str, role: Role) -> CrashRecord:
    for entry in status.roles:
        if entry.name == role and entry.revision == revision:
            at = entry.last_failure_time
            time = None if at is None else datetime.fromisoformat(at)
            return CrashRecord(entry.failures, time, entry.last_failure)
    return CrashRecord()

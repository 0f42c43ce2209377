"""The planner of engines: which to create, which to stop, derived from what is observed.

Stateless: the step is found anew each time. A revision whose engines still exist is drained
before another starts (stop and start). Within a revision each role is brought to its count:
missing engines get the next port blocks, surplus ones are stopped newest first, ended ones are
deleted and replaced after a back-off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from moriio_operator.api import names
from moriio_operator.api.deployment import Owner
from moriio_operator.api.ports import PortBlock, PortRange
from moriio_operator.api.status import EngineState, LastFailure, RetiredPorts, RoleStatus, Status
from moriio_operator.facts.terms import ROLES, Role
from moriio_operator.observe.engine import Engine
from moriio_operator.plan import backoff
from moriio_operator.plan.ports import HeldPorts, PortsExhaustedError, allocate
from moriio_operator.plan.retired import retired

DRAIN_LOOK_S = 30.0


@dataclass(frozen=True, slots=True)
class Birth:
    """An engine to create."""

    pod: str
    role: Role
    ports: PortBlock
    # Where the cursor stands after it.
    cursor: int = 0


@dataclass(frozen=True, slots=True)
class Failures:
    """The crash record of a role, as it goes into the status."""

    count: int = 0
    time: datetime | None = None
    last: LastFailure | None = None


@dataclass(frozen=True, slots=True)
class Room:
    """Where engines find ports: the range, how many each role takes, and what others hold there.

    `others` are blocks of engines of other PDDeployments that may share a node with ours.
    """

    ports: PortRange
    sizes: Mapping[Role, int]
    others: Sequence[PortBlock] = ()


@dataclass(frozen=True, slots=True)
class EnginePlan:
    """What to do with engines now, and when to look again."""

    revision: str
    serving: str
    births: tuple[Birth, ...] = ()
    stops: tuple[Engine, ...] = ()
    newly_ended: tuple[Engine, ...] = ()
    cursor: int = 0
    failures: tuple[tuple[Role, Failures], ...] = ()
    desired: tuple[tuple[Role, int], ...] = ()
    # Blocks of engines that are gone, kept back for the sake of those that live.
    retired: tuple[RetiredPorts, ...] = ()
    # Why fewer engines are born than are missing: no ports; empty if that is not so.
    exhausted: str = ""
    wake_after_s: float | None = None

    @property
    def draining(self) -> bool:
        """Whether an old revision's engines still exist, so that the new one waits."""
        return self.serving != self.revision

    def desired_of(self, role: Role) -> int:
        """Give the number of engines that a role shall have."""
        return dict(self.desired)[role]

    def failures_of(self, role: Role) -> Failures:
        """Give the crash record of a role."""
        return dict(self.failures)[role]


def plan(
    owner: Owner,
    status: Status,
    engines: Sequence[Engine],
    revision: str,
    room: Room,
    now: datetime,
) -> EnginePlan:
    """Plan the next step."""
    base = _standing(status, engines, revision, _wished(owner), now)
    if base.draining:
        stops = tuple(e for e in engines if e.state != EngineState.TERMINATING)
        # No event tells that an engine outlives its grace.
        return replace(base, stops=stops, wake_after_s=DRAIN_LOOK_S)
    return _fill(base, owner, engines, room, now)


def keep(
    owner: Owner,
    status: Status,
    engines: Sequence[Engine],
    revision: str,
    room: Room,
    now: datetime,
) -> EnginePlan:
    """Plan to keep whole a revision in the numbers recorded, whatever the spec wishes."""
    desired = dict.fromkeys(ROLES, 0) | recorded_counts(status, revision)
    base = _standing(status, engines, revision, desired, now)
    return _fill(base, owner, engines, room, now)


def hold(
    owner: Owner, status: Status, engines: Sequence[Engine], revision: str, now: datetime
) -> EnginePlan:
    """Plan to change nothing, for a spec that cannot be acted on; what runs goes on running."""
    running = engines[0].revision if engines else revision
    desired = {**_wished(owner), **recorded_counts(status, running)}
    return _standing(status, engines, running, desired, now)


def _wished(owner: Owner) -> dict[Role, int]:
    return {role: owner.spec.role(role).replicas for role in ROLES}


def recorded_counts(status: Status, revision: str) -> dict[Role, int]:
    """Give how many engines of a revision were wished for when it was last acted on."""
    return {Role(e.name): e.desired for e in status.roles if e.revision == revision}


def _standing(
    status: Status,
    engines: Sequence[Engine],
    revision: str,
    desired: Mapping[Role, int],
    now: datetime,
) -> EnginePlan:
    """Take stock: which revision serves, who ended, what the crash records are."""
    ended = newly_ended(status, engines)
    old = [engine for engine in engines if engine.revision != revision]
    # The status may have been lost, with a restored backup say; what lives is a record too.
    cursor = max(status.port_cursor, *(e.serial + e.ports.size for e in engines), 0)
    failures = (
        (role, _failures(role, status, revision, engines, ended, desired[role], now))
        for role in ROLES
    )
    return EnginePlan(
        revision=revision,
        serving=old[0].revision if old else revision,
        newly_ended=ended,
        cursor=cursor,
        retired=retired(status, engines, cursor),
        failures=tuple(failures),
        desired=tuple(desired.items()),
    )


def _fill(
    base: EnginePlan,
    owner: Owner,
    engines: Sequence[Engine],
    room: Room,
    now: datetime,
) -> EnginePlan:
    """Bring each role of the revision to its count."""
    stops = [engine for engine in engines if engine.state is EngineState.ENDED]
    births: list[Birth] = []
    waits: list[float] = []
    cursor, exhausted = base.cursor, ""
    # A stopping engine may still be known to its peers, so its block counts as held.
    known = (PortBlock(block.base, block.ports) for block in base.retired)
    held = HeldPorts(room.ports, (*(engine.ports for engine in engines), *known, *room.others))
    for role in ROLES:
        wanted = base.desired_of(role)
        alive = [e for e in engines if e.role is role and not e.leaves]
        stops += _surplus(alive, wanted)
        missing = wanted - len(alive)
        record = base.failures_of(role)
        wait = backoff.remaining_s(record.count, record.time, now)
        if missing > 0 and wait > 0:
            waits.append(wait)
            continue
        for _ in range(missing):
            try:
                given = allocate(cursor, room.sizes[role], room.ports, held)
            except PortsExhaustedError as error:
                # What stops gives its ports back, so the rest of the plan stands.
                exhausted = str(error)
                break
            held.add(given.ports)
            cursor = given.cursor
            pod = names.engine_pod(owner.name, role, given.serial)
            births.append(Birth(pod, role, given.ports, cursor))
    return replace(
        base,
        stops=tuple(stops),
        births=tuple(births),
        cursor=cursor,
        wake_after_s=min(waits, default=None),
        exhausted=exhausted,
    )


def _surplus(alive: list[Engine], wanted: int) -> list[Engine]:
    """Choose who stops: those that do not serve first, then the newest."""
    ranked = sorted(alive, key=lambda e: (e.state is not EngineState.READY, e.serial))
    return ranked[wanted:]


def newly_ended(status: Status, engines: Sequence[Engine]) -> tuple[Engine, ...]:
    """Find engines whose end is not in the status yet: each end is counted once.

    The status is written before the pod is deleted; a crash between the two must not count twice.
    """
    known = {e.pod for e in status.engines if e.state is EngineState.ENDED}
    return tuple(e for e in engines if e.state is EngineState.ENDED and e.pod not in known)


def _failures(
    role: Role,
    status: Status,
    revision: str,
    engines: Sequence[Engine],
    fresh_ends: Sequence[Engine],
    desired: int,
    now: datetime,
) -> Failures:
    """Carry the crash record of a role on; another revision begins with a clean one."""
    before = _recorded(status, role, revision)
    ended = [e for e in fresh_ends if e.role is role and e.revision == revision and e.failed]
    if ended:
        newest = max(ended, key=lambda engine: engine.serial)
        trouble = newest.trouble
        last = LastFailure(
            pod=newest.pod,
            reason=trouble.reason if trouble else "Ended",
            message=trouble.message if trouble else "",
        )
        again = any(_one_more(engine, before.time, now) for engine in ended)
        count = backoff.count(before.count, before.time, now) if again else before.count
        return Failures(count, now if again else before.time, last)
    ready = sum(1 for e in engines if e.role is role and e.state is EngineState.READY)
    if ready >= desired:
        return Failures(before.count, before.time, None)
    return before


def _one_more(engine: Engine, last: datetime | None, now: datetime) -> bool:
    """Tell whether an end is one more of a loop, and not of the incident that was counted before.

    A node that shuts down ends all its engines within seconds; only one that was made after the
    last end says anything about making the next.
    """
    if last is None or last > now:
        # Nothing to compare with: the first end, or one that a clock set wrong has stamped.
        return True
    return engine.created is None or engine.created >= last


def _recorded(status: Status, role: Role, revision: str) -> Failures:
    for entry in status.roles:
        if entry.name == role and entry.revision == revision:
            return _from_status(entry)
    return Failures()


def _from_status(entry: RoleStatus) -> Failures:
    time = datetime.fromisoformat(entry.last_failure_time) if entry.last_failure_time else None
    return Failures(entry.failures, time, entry.last_failure)

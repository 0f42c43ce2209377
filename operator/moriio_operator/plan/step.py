"""The planner: which engines to create and which to delete now. Pure and stateless.

The step is derived anew each time from what is observed. The strategy says how many engines each
revision should have; here each role of a revision is brought to its count: missing engines get the
next port blocks, surplus ones go, those that do not serve first and then the newest, and ended ones
are deleted and replaced after a back-off.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from moriio_operator.api import names
from moriio_operator.api.ports import PortBlock, PortRange
from moriio_operator.api.status import EngineState, RetiredPorts, Status
from moriio_operator.facts.terms import ROLES, Role
from moriio_operator.observe.engine import Engine
from moriio_operator.plan import crashes
from moriio_operator.plan.crashes import CrashRecord, newly_ended
from moriio_operator.plan.decision import Decision, Freeze
from moriio_operator.plan.ports import HeldPorts, PortsExhaustedError, allocate, retired
from moriio_operator.plan.strategy import Course, as_it_is, stop_and_start
from moriio_operator.plan.view import RevisionView, engines_of, no_engines, view_of

# No event reports that an engine outlives its grace period.
DRAIN_LOOK_S = 30.0


@dataclass(frozen=True, slots=True)
class PortSpace:
    """Where engines find ports: the range, and what others hold of it.

    `others` are blocks of engines of other PDDeployments that may share a node with ours.
    """

    ports: PortRange
    others: Sequence[PortBlock] = ()


@dataclass(frozen=True, slots=True)
class Creation:
    """An engine to create."""

    pod: str
    role: Role
    revision: str
    ports: PortBlock
    serial: int


@dataclass(frozen=True, slots=True)
class Step:
    """What to do with engines now, and when to look again."""

    course: Course
    creations: tuple[Creation, ...] = ()
    deletions: tuple[Engine, ...] = ()
    newly_ended: tuple[Engine, ...] = ()
    # Ports handed out since the beginning, those of the creations included.
    cursor: int = 0
    # Crash records by revision and role.
    failures: Mapping[tuple[str, Role], CrashRecord] = field(default_factory=dict)
    # Blocks of engines that are gone, kept back for the sake of those that live.
    retired: tuple[RetiredPorts, ...] = ()
    # Why fewer engines are created than are missing: no ports; empty if that is not so.
    exhausted: str = ""
    wake_after_s: float | None = None

    def failures_of(self, revision: str, role: Role) -> CrashRecord:
        """Give the crash record of a role in a revision."""
        return self.failures.get((revision, role), CrashRecord())


def plan(
    decision: Decision,
    name: str,
    status: Status,
    views: Sequence[RevisionView],
    space: PortSpace,
    now: datetime,
    undiagnosed: Collection[str] = (),
) -> Step:
    """Plan the next step of the PDDeployment of this name.

    Deleting a pod takes its log with it, so ended engines whose log is being read, named by their
    uid in `undiagnosed`, are replaced at once and deleted a little later.
    """
    if isinstance(decision, Freeze):
        course = as_it_is(views, decision.revision or "")
        return _standing(status, views, course, now)
    course = stop_and_start(views, decision.target)
    builder = _Builder(name, views, space, _standing(status, views, course, now), now)
    for revision, counts in course.counts.items():
        view = view_of(views, revision)
        builder.delete_ended(view, undiagnosed)
        for role in ROLES:
            builder.bring_to_count(
                view, role, counts.get(role, 0), blocked=role in decision.blocked
            )
    return builder.step()


def _standing(status: Status, views: Sequence[RevisionView], course: Course, now: datetime) -> Step:
    """Take stock: what ended, what the crash records are, which ports are kept back."""
    engines = engines_of(views)
    # The status may have been lost, with a restored backup say; what lives is a record too.
    cursor = max(status.port_allocation.cursor, *(e.serial + e.ports.size for e in engines), 0)
    failures = {}
    for view in views:
        desired = course.counts.get(view.name) or view.accepted or no_engines()
        for role in ROLES:
            failures[view.name, role] = crashes.carry_on(
                status, view.name, role, view.engines, desired.get(role, 0), now
            )
    return Step(
        course=course,
        newly_ended=newly_ended(status, engines),
        cursor=cursor,
        retired=retired(status, engines, cursor),
        failures=failures,
        wake_after_s=DRAIN_LOOK_S if course.waits else None,
    )


class _Builder:
    """Collects a step, revision by revision; ports are given out in this order."""

    def __init__(
        self,
        name: str,
        views: Sequence[RevisionView],
        space: PortSpace,
        standing: Step,
        now: datetime,
    ) -> None:
        self._name = name
        self._standing = standing
        self._now = now
        self._range = space.ports
        # A terminating engine may still be known to its peers, so its block counts as held.
        known = (PortBlock(block.base, block.ports) for block in standing.retired)
        mine = (engine.ports for engine in engines_of(views))
        self._held = HeldPorts(space.ports, (*mine, *known, *space.others))
        self._cursor = standing.cursor
        self._creations: list[Creation] = []
        self._deletions: list[Engine] = []
        self._waits = [] if standing.wake_after_s is None else [standing.wake_after_s]
        self._exhausted = ""

    def delete_ended(self, view: RevisionView, undiagnosed: Collection[str]) -> None:
        """Delete engines that ended."""
        self._deletions += [
            e for e in view.engines if e.state is EngineState.ENDED and e.uid not in undiagnosed
        ]

    def bring_to_count(self, view: RevisionView, role: Role, count: int, *, blocked: bool) -> None:
        """Delete what is too much of a role, or create what is missing."""
        alive = view.of_role(role)
        ranked = sorted(alive, key=lambda e: (e.state is not EngineState.READY, e.serial))
        self._deletions += ranked[count:]
        missing = count - len(alive)
        if missing <= 0 or view.shape is None:
            return
        wait = crashes.remaining_s(self._standing.failures_of(view.name, role), self._now)
        if wait > 0:
            self._waits.append(wait)
        elif not blocked:
            self._create(view.name, role, missing, view.shape.block_sizes[role])

    def _create(self, revision: str, role: Role, missing: int, size: int) -> None:
        for _ in range(missing):
            try:
                given = allocate(self._cursor, size, self._range, self._held)
            except PortsExhaustedError as error:
                # What is deleted gives its ports back, so the rest of the step stands.
                self._exhausted = str(error)
                return
            self._held.add(given.ports)
            self._cursor = given.cursor
            pod = names.engine_pod(self._name, role, given.serial)
            self._creations.append(Creation(pod, role, revision, given.ports, given.serial))

    def step(self) -> Step:
        """Give the step."""
        standing = self._standing
        return Step(
            course=standing.course,
            creations=tuple(self._creations),
            deletions=tuple(self._deletions),
            newly_ended=standing.newly_ended,
            cursor=self._cursor,
            failures=standing.failures,
            retired=standing.retired,
            exhausted=self._exhausted,
            wake_after_s=min(self._waits, default=None),
        )

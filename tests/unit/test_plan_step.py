"""The planner's next step, case by case: creations, deletions, back-off, one revision at a time."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest
from moriio_operator.api.ports import PortBlock, PortRange
from moriio_operator.api.status import (
    EngineState,
    EngineStatus,
    LastFailure,
    PortAllocation,
    RoleStatus,
    Status,
)
from moriio_operator.facts.terms import ROLES, Role
from moriio_operator.observe.engine import Engine
from moriio_operator.observe.failure import Failure
from moriio_operator.plan import step as planner
from moriio_operator.plan.crashes import CrashRecord
from moriio_operator.plan.decision import Act, Freeze, Keep, Target
from moriio_operator.plan.step import PortSpace, Step
from moriio_operator.plan.view import EngineShape, RevisionView
from moriio_operator.stack.vllm_moriio.ports import layout

from unit.samples import NOW, PORTS, REVISION, engine, later

P, D = Role.PREFILL, Role.DECODE
SIZES = dict.fromkeys(ROLES, len(layout(1)))
READY, ENDED, LEAVING = EngineState.READY, EngineState.ENDED, EngineState.TERMINATING


def wish(prefill: int = 1, decode: int = 1) -> dict[Role, int]:
    return {P: prefill, D: decode}


def step(
    engines: list[Engine],
    counts: dict[Role, int] | None = None,
    status: Status | None = None,
    now: datetime = NOW,
    *,
    revision: str = REVISION,
    ports: PortRange = PORTS,
    sizes: dict[Role, int] = SIZES,
    kind: type[Act | Keep] = Act,
    blocked: frozenset[Role] = frozenset(),
) -> Step:
    known = status or Status(port_allocation=PortAllocation(cursor=40))
    decision = kind(Target(revision, counts or wish()), (), blocked)
    return planner.plan(
        decision, "llm", known, views(engines, revision, sizes), PortSpace(ports), now
    )


def frozen(engines: list[Engine], status: Status, revision: str | None) -> Step:
    seen = views(engines, REVISION, SIZES)
    return planner.plan(Freeze(revision), "llm", status, seen, PortSpace(PORTS), NOW)


def views(engines: list[Engine], asked: str, sizes: dict[Role, int]) -> tuple[RevisionView, ...]:
    """Every revision that lives, and the one that is asked for."""
    names = dict.fromkeys((asked, *(engine.revision for engine in engines)))
    shape = EngineShape(sizes)
    return tuple(
        RevisionView(name, tuple(e for e in engines if e.revision == name), None, shape)
        for name in names
    )


def born(plan: Step) -> list[str]:
    return [each.pod for each in plan.creations]


def stopped(plan: Step) -> list[str]:
    return [each.pod for each in plan.deletions]


def recorded(
    failures: int, ago_s: float = 0, *, ended: str | None = None, role: Role = D
) -> Status:
    """A status with a crash record, and perhaps an end that is already counted."""
    failure = LastFailure(pod=f"llm-{role}-0", reason="Error", message="boom")
    entry = RoleStatus(
        name=role.value,
        revision=REVISION,
        desired=1,
        pods=0,
        ready=0,
        failures=failures,
        last_failure_time=later(-ago_s).isoformat().replace("+00:00", "Z"),
        last_failure=failure,
    )
    known = [
        EngineStatus(
            pod=ended,
            role=role.value,
            revision=REVISION,
            port_base=20_000,
            ports=4,
            state=ENDED,
        )
        for _ in [0]
        if ended
    ]
    return Status(port_allocation=PortAllocation(cursor=40), roles=[entry], engines=known)


def test_missing_engines_take_the_next_blocks_and_the_cursor_moves_on() -> None:
    plan = step([], wish(1, 2))
    assert born(plan) == ["llm-prefill-40", "llm-decode-44", "llm-decode-48"]
    assert [birth.ports.base for birth in plan.creations] == [20_040, 20_044, 20_048]
    assert plan.cursor == 52


def test_a_deployment_that_is_as_wished_is_left_alone() -> None:
    plan = step([engine(0, P), engine(4, D)])
    assert (plan.creations, plan.deletions, plan.cursor, plan.wake_after_s) == ((), (), 40, None)


@pytest.mark.parametrize("state", [EngineState.PENDING, EngineState.STARTING, EngineState.UNREADY])
def test_an_engine_that_is_not_ready_yet_is_not_doubled(state: EngineState) -> None:
    assert step([engine(0, P, state), engine(4, D, state)]).creations == ()


def test_an_engine_that_leaves_is_replaced_at_once() -> None:
    plan = step([engine(0, P), engine(4, D, LEAVING)])
    assert born(plan) == ["llm-decode-40"]
    assert stopped(plan) == []


def test_a_surplus_is_stopped_newest_first() -> None:
    plan = step([engine(0, P), *(engine(n, D) for n in (12, 4, 8))])
    assert stopped(plan) == ["llm-decode-8", "llm-decode-12"]


def test_of_a_surplus_those_that_do_not_serve_are_stopped_first() -> None:
    plan = step([engine(0, P), engine(4, D, EngineState.STARTING), engine(8, D)])
    assert stopped(plan) == ["llm-decode-4"]


def test_the_block_of_an_engine_that_leaves_is_not_given_out() -> None:
    status = Status(port_allocation=PortAllocation(cursor=PORTS.length))
    plan = step([engine(0, D, LEAVING), engine(4, P)], status=status)
    assert [birth.ports.base for birth in plan.creations] == [20_008]


def test_an_ended_engine_is_deleted_and_replaced_at_once_the_first_time() -> None:
    plan = step([engine(0, P), engine(4, D, ENDED)])
    assert stopped(plan) == ["llm-decode-4"]
    assert born(plan) == ["llm-decode-40"]
    assert plan.failures_of(REVISION, D).count == 1


def test_the_end_is_kept_with_its_words() -> None:
    failure = Failure("OOMKilled", "exit code 137")
    plan = step([engine(0, P), engine(4, D, ENDED, failure=failure)])
    last = LastFailure(pod="llm-decode-4", reason="OOMKilled", message="exit code 137")
    assert plan.failures_of(REVISION, D) == CrashRecord(1, NOW, last)
    assert plan.failures_of(REVISION, P) == CrashRecord()


def test_of_several_ends_the_newest_engines_words_are_kept() -> None:
    # The API lists names as text: 12 before 4.
    plan = step([engine(0, P), engine(12, D, ENDED), engine(4, D, ENDED)])
    last = plan.failures_of(REVISION, D).last
    assert last is not None
    assert last.pod == "llm-decode-12"


def test_a_second_end_soon_after_waits() -> None:
    plan = step([engine(0, P), engine(4, D, ENDED)], status=recorded(1, 30))
    assert plan.failures_of(REVISION, D).count == 2
    assert born(plan) == []
    assert plan.wake_after_s == 10
    assert stopped(plan) == ["llm-decode-4"]


def crashed(serial: int, created_s: float) -> Engine:
    """An engine that ended, and when it was made."""
    return replace(engine(serial, D, ENDED), created=later(created_s))


def test_ends_of_one_incident_count_as_one_failure() -> None:
    # A node shuts down: engines that served for long end one after the other.
    first = step([engine(0, P), crashed(4, -900), crashed(8, -900)], wish(1, 4), Status())
    assert first.failures_of(REVISION, D).count == 1
    counted = recorded(1, 8)
    plan = step([engine(0, P), crashed(12, -900), crashed(16, -9)], wish(1, 4), counted)
    record = plan.failures_of(REVISION, D)
    assert (record.count, record.time) == (1, later(-8))
    assert len(born(plan)) == 4
    assert plan.wake_after_s is None
    # Its words are the news nevertheless.
    assert record.last is not None
    assert record.last.pod == "llm-decode-16"


@pytest.mark.parametrize("created_s", [-8, -7])
def test_an_end_of_an_engine_that_was_made_since_counts_one_more(created_s: int) -> None:
    # Times are in whole seconds: a successor may have been made within the second of the end.
    plan = step([engine(0, P), crashed(4, -900), crashed(8, created_s)], status=recorded(1, 8))
    record = plan.failures_of(REVISION, D)
    assert (record.count, record.time) == (2, NOW)
    assert born(plan) == []


@pytest.mark.parametrize("ahead_s", [601, 36_000])
def test_an_end_in_the_far_future_holds_no_successor_up(ahead_s: int) -> None:
    assert born(step([engine(0, P)], status=recorded(7, -ahead_s))) == ["llm-decode-40"]


def test_an_end_in_the_near_future_holds_a_successor_up_for_its_wait_at_most() -> None:
    status = recorded(3, -15)
    assert step([engine(0, P)], status=status).wake_after_s == 5
    assert step([engine(0, P)], status=status, now=later(35)).creations != ()


def test_when_the_wait_is_over_the_successor_comes() -> None:
    waiting = recorded(2, 9.5)
    assert step([engine(0, P)], status=waiting).wake_after_s == 0.5
    assert born(step([engine(0, P)], status=waiting, now=later(0.5))) == ["llm-decode-40"]


def test_one_role_that_crashes_does_not_hold_the_other_up() -> None:
    plan = step([], status=recorded(5, 1))
    assert born(plan) == ["llm-prefill-40"]
    assert plan.wake_after_s == 79


def test_an_end_that_is_in_the_status_is_not_counted_again() -> None:
    plan = step([engine(0, P), engine(4, D, ENDED)], status=recorded(2, 1, ended="llm-decode-4"))
    assert plan.newly_ended == ()
    assert plan.failures_of(REVISION, D).count == 2


def test_the_last_words_are_kept_until_the_role_is_whole_again() -> None:
    assert step([engine(0, P)], status=recorded(1)).failures_of(REVISION, D).last is not None
    starting = [engine(0, P), engine(4, D), engine(8, D, EngineState.STARTING)]
    assert step(starting, wish(1, 2), recorded(1)).failures_of(REVISION, D).last is not None
    whole = step([engine(0, P), engine(4, D)], status=recorded(1)).failures_of(REVISION, D)
    assert (whole.last, whole.count) == (None, 1)


def test_an_old_revision_is_stopped_whole_before_anything_is_started() -> None:
    old = [engine(0, P, revision="old"), engine(4, D, ENDED, revision="old")]
    plan = step(old)
    assert (plan.course.waits, plan.course.client) == (True, "old")
    assert stopped(plan) == ["llm-decode-4", "llm-prefill-0"]
    assert (plan.creations, plan.cursor) == ((), 40)


@pytest.mark.parametrize("state", [READY, LEAVING])
def test_a_drain_is_looked_at_again_since_no_event_tells_that_it_is_stuck(
    state: EngineState,
) -> None:
    plan = step([engine(0, P, state, revision="old")])
    assert plan.wake_after_s == planner.DRAIN_LOOK_S


def test_while_one_engine_of_an_old_revision_leaves_the_new_one_waits() -> None:
    plan = step([engine(0, P, LEAVING, revision="old")])
    assert plan.course.waits
    assert (plan.creations, plan.deletions) == ((), ())


def test_a_new_revision_has_a_clean_crash_record() -> None:
    status = recorded(7)
    plan = step([], status=status, revision="other")
    assert plan.failures_of("other", D) == CrashRecord()
    assert len(plan.creations) == 2


def test_the_end_of_an_old_revisions_engine_is_told_but_not_held_against_the_new_one() -> None:
    plan = step([engine(0, D, ENDED, revision="old")])
    assert [each.pod for each in plan.newly_ended] == ["llm-decode-0"]
    assert plan.failures_of(REVISION, D).count == 0


def test_frozen_nothing_changes_and_what_runs_is_reported() -> None:
    running = [engine(0, P, revision="old"), engine(4, D, ENDED, revision="old")]
    plan = frozen(running, Status(port_allocation=PortAllocation(cursor=40)), None)
    assert (plan.creations, plan.deletions, plan.cursor) == ((), (), 40)
    assert (plan.course.waits, plan.course.client) == (False, "old")
    assert plan.failures_of("old", D).count == 1


def test_frozen_with_nothing_running_clients_reach_what_was_accepted_last() -> None:
    assert frozen([], Status(), REVISION).course.client == REVISION


TWELVE = PortRange(20_000, 20_011)


def test_when_ports_run_out_those_that_fit_are_planned_and_the_rest_is_told() -> None:
    plan = step([], wish(2, 2), Status(), ports=TWELVE)
    assert born(plan) == ["llm-prefill-0", "llm-prefill-4", "llm-decode-8"]
    assert plan.exhausted == (
        "no 4 contiguous ports are free in 20000-20011: of its 12 ports 12 are held by engines, or "
        "known to engines that live"
    )


def test_in_a_full_range_an_engine_that_ended_gives_its_ports_to_its_successor() -> None:
    engines = [engine(0, P), engine(4, P), engine(8, D, ENDED)]
    status = Status(port_allocation=PortAllocation(cursor=12))
    plan = step(engines, wish(2, 1), status, ports=TWELVE)
    assert (born(plan), stopped(plan)) == ([], ["llm-decode-8"])
    assert plan.exhausted
    later_on = step(engines[:2], wish(2, 1), status, ports=TWELVE)
    assert born(later_on) == ["llm-decode-20"]
    assert not later_on.exhausted


def test_what_is_kept_is_brought_to_the_counts_that_were_accepted() -> None:
    plan = step([], wish(0, 1), recorded(0), kind=Keep)
    assert [creation.role for creation in plan.creations] == [D]


def test_of_a_role_that_the_api_server_refuses_nothing_is_created_and_no_port_is_spent() -> None:
    plan = step([engine(4, D, ENDED)], blocked=frozenset({D}))
    assert [creation.role for creation in plan.creations] == [P]
    assert (stopped(plan), plan.cursor) == (["llm-decode-4"], 44)
    assert step([], blocked=frozenset({P, D})).cursor == 40


def test_of_a_revision_without_templates_nothing_is_created() -> None:
    seen = (RevisionView(REVISION),)
    decision = Act(Target(REVISION, wish()))
    plan = planner.plan(decision, "llm", Status(), seen, PortSpace(PORTS), NOW)
    assert plan.creations == ()


def test_the_replacement_of_an_engine_whose_log_is_read_comes_at_once() -> None:
    dead = engine(4, D, ENDED)
    seen = views([engine(0, P), dead], REVISION, SIZES)
    decision = Act(Target(REVISION, wish()))
    known, space = Status(port_allocation=PortAllocation(cursor=40)), PortSpace(PORTS)
    plan = planner.plan(decision, "llm", known, seen, space, NOW, undiagnosed={dead.uid})
    assert (born(plan), stopped(plan)) == (["llm-decode-40"], [])


def test_what_is_known_later_of_an_end_replaces_what_was_recorded_of_it() -> None:
    told = Failure("PortInUse", "Address already in use")
    later_on = replace(engine(0, D, ENDED), failure=told)
    plan = step([engine(8, P), later_on], status=recorded(1, ended="llm-decode-0"))
    last = plan.failures_of(REVISION, D).last
    assert last == LastFailure(pod="llm-decode-0", reason="PortInUse", message=told.message)


@pytest.mark.parametrize("reason", ["Relabelled", "UnknownRevision", "PortsDoubled"])
def test_an_engine_whose_labels_were_edited_did_not_fail(reason: str) -> None:
    plan = step([engine(0, P), engine(4, D, ENDED, failure=Failure(reason, "x"))])
    assert plan.failures_of(REVISION, D) == CrashRecord()
    assert len(plan.creations) == 1


def test_engines_with_more_ranks_get_larger_blocks() -> None:
    plan = step([], sizes={P: 10, D: 4})
    assert [creation.ports.size for creation in plan.creations] == [10, 4]


@pytest.mark.parametrize("state", list(EngineState))
def test_without_a_status_the_cursor_begins_above_every_engine(state: EngineState) -> None:
    wide = replace(engine(44, D), ports=PortBlock(20_044, len(layout(4))))
    plan = step([engine(12, P, state), wide], wish(2, 1), Status())
    assert born(plan)[0] == "llm-prefill-54"
    assert plan.cursor >= 58


def test_without_a_status_a_drain_and_a_freeze_keep_the_cursor_above_every_engine() -> None:
    old = [engine(12, P, revision="old"), engine(44, D, revision="old")]
    assert step(old, status=Status()).cursor == 48
    assert frozen(old, Status(), None).cursor == 48


def test_a_cursor_that_is_ahead_of_the_engines_stays() -> None:
    assert step([engine(0, P), engine(4, D)]).cursor == 40

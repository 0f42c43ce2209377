"""The planner's next step, case by case: births, stops, back-off, and one revision at a time."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest
from moriio_operator.api.deployment import Owner
from moriio_operator.api.ports import PortBlock, PortRange
from moriio_operator.api.status import EngineState, EngineStatus, LastFailure, RoleStatus, Status
from moriio_operator.facts.terms import ROLES, Role
from moriio_operator.observe.engine import Engine
from moriio_operator.observe.failure import Trouble
from moriio_operator.plan import engines as planner
from moriio_operator.plan.engines import EnginePlan, Failures, Room
from moriio_operator.stack.vllm_moriio.ports import layout

from unit.samples import NOW, PORTS, REVISION, engine, later, owner

P, D = Role.PREFILL, Role.DECODE
SIZES = dict.fromkeys(ROLES, len(layout(1)))
READY, ENDED, LEAVING = EngineState.READY, EngineState.ENDED, EngineState.TERMINATING


def wish(prefill: int = 1, decode: int = 1) -> Owner:
    return owner({"prefill": {"replicas": prefill}, "decode": {"replicas": decode}})


def step(
    engines: list[Engine],
    whose: Owner | None = None,
    status: Status | None = None,
    now: datetime = NOW,
) -> EnginePlan:
    known = status or Status(port_cursor=40)
    whose = whose or wish()
    sizes = {role: len(layout(whose.spec.role(role).parallelism.ranks)) for role in ROLES}
    return planner.plan(whose, known, engines, REVISION, Room(PORTS, sizes), now)


def born(plan: EnginePlan) -> list[str]:
    return [birth.pod for birth in plan.births]


def stopped(plan: EnginePlan) -> list[str]:
    return [each.pod for each in plan.stops]


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
    return Status(port_cursor=40, roles=[entry], engines=known)


def test_missing_engines_take_the_next_blocks_and_the_cursor_moves_on() -> None:
    plan = step([], wish(1, 2))
    assert born(plan) == ["llm-prefill-40", "llm-decode-44", "llm-decode-48"]
    assert [birth.ports.base for birth in plan.births] == [20_040, 20_044, 20_048]
    assert plan.cursor == 52


def test_a_deployment_that_is_as_wished_is_left_alone() -> None:
    plan = step([engine(0, P), engine(4, D)])
    assert (plan.births, plan.stops, plan.cursor, plan.wake_after_s) == ((), (), 40, None)


@pytest.mark.parametrize("state", [EngineState.PENDING, EngineState.STARTING, EngineState.UNREADY])
def test_an_engine_that_is_not_ready_yet_is_not_doubled(state: EngineState) -> None:
    assert step([engine(0, P, state), engine(4, D, state)]).births == ()


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
    status = Status(port_cursor=PORTS.length)
    plan = step([engine(0, D, LEAVING), engine(4, P)], status=status)
    assert [birth.ports.base for birth in plan.births] == [20_008]


def test_an_ended_engine_is_deleted_and_replaced_at_once_the_first_time() -> None:
    plan = step([engine(0, P), engine(4, D, ENDED)])
    assert stopped(plan) == ["llm-decode-4"]
    assert born(plan) == ["llm-decode-40"]
    assert plan.failures_of(D).count == 1


def test_the_end_is_kept_with_its_words() -> None:
    trouble = Trouble("OOMKilled", "exit code 137")
    plan = step([engine(0, P), engine(4, D, ENDED, trouble=trouble)])
    last = LastFailure(pod="llm-decode-4", reason="OOMKilled", message="exit code 137")
    assert plan.failures_of(D) == Failures(1, NOW, last)
    assert plan.failures_of(P) == Failures()


def test_of_several_ends_the_newest_engines_words_are_kept() -> None:
    # The API lists names as text: 12 before 4.
    plan = step([engine(0, P), engine(12, D, ENDED), engine(4, D, ENDED)])
    last = plan.failures_of(D).last
    assert last is not None
    assert last.pod == "llm-decode-12"


def test_a_second_end_soon_after_waits() -> None:
    plan = step([engine(0, P), engine(4, D, ENDED)], status=recorded(1, 30))
    assert plan.failures_of(D).count == 2
    assert born(plan) == []
    assert plan.wake_after_s == 10
    assert stopped(plan) == ["llm-decode-4"]


def crashed(serial: int, created_s: float) -> Engine:
    """An engine that ended, and when it was made."""
    return replace(engine(serial, D, ENDED), created=later(created_s))


def test_ends_of_one_incident_count_as_one_failure() -> None:
    # A node shuts down: engines that served for long end one after the other.
    first = step([engine(0, P), crashed(4, -900), crashed(8, -900)], wish(1, 4), Status())
    assert first.failures_of(D).count == 1
    counted = recorded(1, 8)
    plan = step([engine(0, P), crashed(12, -900), crashed(16, -9)], wish(1, 4), counted)
    record = plan.failures_of(D)
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
    record = plan.failures_of(D)
    assert (record.count, record.time) == (2, NOW)
    assert born(plan) == []


@pytest.mark.parametrize("ahead_s", [601, 36_000])
def test_an_end_in_the_far_future_holds_no_successor_up(ahead_s: int) -> None:
    assert born(step([engine(0, P)], status=recorded(7, -ahead_s))) == ["llm-decode-40"]


def test_an_end_in_the_near_future_holds_a_successor_up_for_its_wait_at_most() -> None:
    status = recorded(3, -15)
    assert step([engine(0, P)], status=status).wake_after_s == 5
    assert step([engine(0, P)], status=status, now=later(35)).births != ()


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
    assert plan.failures_of(D).count == 2


def test_the_last_words_are_kept_until_the_role_is_whole_again() -> None:
    assert step([engine(0, P)], status=recorded(1)).failures_of(D).last is not None
    starting = [engine(0, P), engine(4, D), engine(8, D, EngineState.STARTING)]
    assert step(starting, wish(1, 2), recorded(1)).failures_of(D).last is not None
    whole = step([engine(0, P), engine(4, D)], status=recorded(1)).failures_of(D)
    assert (whole.last, whole.count) == (None, 1)


def test_an_old_revision_is_stopped_whole_before_anything_is_started() -> None:
    old = [engine(0, P, revision="old"), engine(4, D, ENDED, revision="old")]
    plan = step(old)
    assert (plan.draining, plan.serving, plan.revision) == (True, "old", REVISION)
    assert stopped(plan) == ["llm-prefill-0", "llm-decode-4"]
    assert (plan.births, plan.cursor) == ((), 40)


@pytest.mark.parametrize("state", [READY, LEAVING])
def test_a_drain_is_looked_at_again_since_no_event_tells_that_it_is_stuck(
    state: EngineState,
) -> None:
    plan = step([engine(0, P, state, revision="old")])
    assert plan.wake_after_s == planner.DRAIN_LOOK_S


def test_while_one_engine_of_an_old_revision_leaves_the_new_one_waits() -> None:
    plan = step([engine(0, P, LEAVING, revision="old")])
    assert plan.draining
    assert (plan.births, plan.stops) == ((), ())


def test_a_new_revision_has_a_clean_crash_record() -> None:
    status = recorded(7)
    plan = planner.plan(wish(), status, [], "other", Room(PORTS, SIZES), NOW)
    assert plan.failures_of(D) == Failures()
    assert len(plan.births) == 2


def test_the_end_of_an_old_revisions_engine_is_told_but_not_held_against_the_new_one() -> None:
    plan = step([engine(0, D, ENDED, revision="old")])
    assert [each.pod for each in plan.newly_ended] == ["llm-decode-0"]
    assert plan.failures_of(D).count == 0


def test_holding_changes_nothing_and_reports_what_runs() -> None:
    running = [engine(0, P, revision="old"), engine(4, D, ENDED, revision="old")]
    plan = planner.hold(wish(3, 3), Status(port_cursor=40), running, REVISION, NOW)
    assert (plan.births, plan.stops, plan.cursor) == ((), (), 40)
    assert (plan.revision, plan.serving, plan.draining) == ("old", "old", False)
    assert plan.failures_of(D).count == 1


def test_holding_with_nothing_running_reports_the_wish() -> None:
    plan = planner.hold(wish(), Status(), [], REVISION, NOW)
    assert (plan.revision, plan.serving) == (REVISION, REVISION)


TWELVE = PortRange(20_000, 20_011)


def test_when_ports_run_out_those_that_fit_are_planned_and_the_rest_is_told() -> None:
    plan = planner.plan(wish(2, 2), Status(), [], REVISION, Room(TWELVE, SIZES), NOW)
    assert born(plan) == ["llm-prefill-0", "llm-prefill-4", "llm-decode-8"]
    assert plan.exhausted == (
        "no 4 contiguous ports are free in 20000-20011: of its 12 ports 12 are held by engines, or "
        "known to engines that live"
    )


def test_in_a_full_range_an_engine_that_ended_gives_its_ports_to_its_successor() -> None:
    engines = [engine(0, P), engine(4, P), engine(8, D, ENDED)]
    status = Status(port_cursor=12)
    plan = planner.plan(wish(2, 1), status, engines, REVISION, Room(TWELVE, SIZES), NOW)
    assert (born(plan), stopped(plan)) == ([], ["llm-decode-8"])
    assert plan.exhausted
    later_on = planner.plan(wish(2, 1), status, engines[:2], REVISION, Room(TWELVE, SIZES), NOW)
    assert born(later_on) == ["llm-decode-20"]
    assert not later_on.exhausted


def test_what_is_kept_is_kept_in_the_numbers_recorded() -> None:
    status = recorded(0)
    plan = planner.keep(wish(5, 5), status, [], REVISION, Room(PORTS, SIZES), NOW)
    assert [birth.role for birth in plan.births] == [D]


def test_of_a_revision_that_is_not_recorded_nothing_is_made() -> None:
    plan = planner.keep(wish(5, 5), Status(), [], "other", Room(PORTS, SIZES), NOW)
    assert plan.births == ()


@pytest.mark.parametrize("reason", ["Relabelled", "UnknownRevision", "PortsDoubled"])
def test_an_engine_whose_labels_were_edited_did_not_fail(reason: str) -> None:
    plan = step([engine(0, P), engine(4, D, ENDED, trouble=Trouble(reason, "x"))])
    assert plan.failures_of(D) == Failures()
    assert len(plan.births) == 1


def test_tensor_parallel_engines_get_larger_blocks() -> None:
    whose = owner({"prefill": {"parallelism": {"tensor": 4}}})
    plan = step([], whose)
    assert [birth.ports.size for birth in plan.births] == [10, 4]


@pytest.mark.parametrize("state", list(EngineState))
def test_without_a_status_the_cursor_begins_above_every_engine(state: EngineState) -> None:
    whose = owner({"prefill": {"replicas": 2}})
    wide = replace(engine(44, D), ports=PortBlock(20_044, len(layout(4))))
    plan = step([engine(12, P, state), wide], whose, Status())
    assert born(plan)[0] == "llm-prefill-54"
    assert plan.cursor >= 58


def test_without_a_status_a_drain_and_a_hold_keep_the_cursor_above_every_engine() -> None:
    old = [engine(12, P, revision="old"), engine(44, D, revision="old")]
    assert step(old, status=Status()).cursor == 48
    assert planner.hold(wish(), Status(), old, REVISION, NOW).cursor == 48


def test_a_cursor_that_is_ahead_of_the_engines_stays() -> None:
    assert step([engine(0, P), engine(4, D)]).cursor == 40

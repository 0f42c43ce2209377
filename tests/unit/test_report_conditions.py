"""Conditions say one thing each, name the pod and the cause, and their times do not flap."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moriio_operator.api.ports import PortBlock
from moriio_operator.api.problem import Problem
from moriio_operator.api.status import Condition, ConditionType, EngineState, LastFailure
from moriio_operator.facts.terms import Role
from moriio_operator.facts.versions import Version
from moriio_operator.observe.engine import Engine
from moriio_operator.observe.failure import Failure
from moriio_operator.plan.crashes import CrashRecord
from moriio_operator.plan.decision import Act, Decision, Freeze, Keep, Target
from moriio_operator.plan.step import Creation, Step
from moriio_operator.plan.strategy import Course
from moriio_operator.report import conditions
from moriio_operator.report.conditions import Verdict
from moriio_operator.stack.stack import Assessment

from unit.samples import NOW, REVISION, Json, engine, later

P, D = Role.PREFILL, Role.DECODE
NONE = CrashRecord()


def failed(count: int = 1) -> CrashRecord:
    last = LastFailure(pod="llm-decode-0", reason="OOMKilled", message="exit code 137")
    return CrashRecord(count, NOW, last)


def decode(
    *engines: Engine, desired: int = 1, failures: CrashRecord = NONE
) -> tuple[str, str, str]:
    verdict = conditions.role_ready(D, engines, desired, failures)
    assert verdict.type == ConditionType.DECODE_READY
    return verdict.status, verdict.reason, verdict.message


def test_a_spec_without_problems_is_accepted() -> None:
    assert conditions.accepted([]).status == "True"


def test_every_problem_is_told_and_the_first_gives_the_reason() -> None:
    verdict = conditions.accepted([Problem("One", "spec.a", "is wrong"), Problem("Two", "", "x")])
    assert (verdict.status, verdict.reason) == ("False", "One")
    assert verdict.message == "spec.a: is wrong; x"


def test_a_role_with_all_engines_ready_is_ready() -> None:
    assert decode(engine(4, D)) == ("True", "AllReady", "1 of 1 engines serve")


def test_engines_of_the_other_role_do_not_count() -> None:
    assert decode(engine(4, P))[0] == "False"


@pytest.mark.parametrize(
    ("engines", "reason", "message"),
    [
        ([], "Starting", "0 of 1 engines serve; none is created yet"),
        (
            [engine(4, D, EngineState.STARTING)],
            "Starting",
            "0 of 1 engines serve; llm-decode-4 is Starting",
        ),
        (
            [engine(4, D, EngineState.UNREADY)],
            "Unready",
            "0 of 1 engines serve; llm-decode-4 is Unready",
        ),
        (
            [replace(engine(4, D, EngineState.UNREADY), node="n1")],
            "Unready",
            "0 of 1 engines serve; llm-decode-4 is Unready on n1",
        ),
        (
            [
                replace(engine(4, D, EngineState.PENDING), node="n1"),
                engine(8, D, EngineState.STARTING),
            ],
            "Starting",
            "0 of 1 engines serve; llm-decode-4 is Pending on n1 (kubectl describe pod tells more),"
            " llm-decode-8 is Starting",
        ),
        (
            [engine(4, D, EngineState.PENDING)],
            "Starting",
            "0 of 1 engines serve; llm-decode-4 is Pending (kubectl describe pod tells more)",
        ),
        (
            [engine(4, D, EngineState.PENDING, failure=Failure("ErrImagePull", "no such image"))],
            "ErrImagePull",
            "0 of 1 engines serve; llm-decode-4: no such image",
        ),
        (
            [
                engine(
                    4, D, EngineState.UNREADY, failure=Failure("SidecarEnded", "log: exit code 1")
                )
            ],
            "SidecarEnded",
            "0 of 1 engines serve; llm-decode-4: log: exit code 1",
        ),
    ],
)
def test_a_role_that_is_not_ready_names_pod_and_cause(
    engines: list[Engine], reason: str, message: str
) -> None:
    assert decode(*engines) == ("False", reason, message)


def test_an_end_is_told_with_its_words_until_a_successor_serves() -> None:
    starting = engine(4, D, EngineState.STARTING)
    status, reason, message = decode(starting, failures=failed())
    assert (status, reason) == ("False", "EngineEnded")
    assert message == "0 of 1 engines serve; llm-decode-0 ended (OOMKilled): exit code 137"


def test_a_crash_loop_tells_how_long_it_waits() -> None:
    message = decode(failures=failed(3))[2]
    assert "3 in a row, the next starts 20 s after the last" in message


def test_a_successor_that_cannot_start_is_told_beside_the_end() -> None:
    stuck = engine(4, D, EngineState.PENDING, failure=Failure("Unschedulable", "0/2 nodes"))
    assert "llm-decode-4: 0/2 nodes" in decode(stuck, failures=failed())[2]


def test_an_engine_that_leaves_is_no_trouble_of_the_role() -> None:
    leaving = engine(0, D, EngineState.TERMINATING, failure=Failure("ErrImagePull", "no image"))
    assert decode(leaving)[1] == "Starting"


def deployment(ready: int = 0, *made: Json) -> Json:
    return {
        "metadata": {"name": "llm-router-x"},
        "status": {"readyReplicas": ready, "conditions": list(made)},
    }


def routers(found: Any, *, engines_serve: bool = False) -> tuple[str, str, str]:
    verdict = conditions.router_ready(found, 2, engines_serve=engines_serve)
    return verdict.status, verdict.reason, verdict.message


def test_one_ready_router_suffices() -> None:
    assert routers(deployment(1))[:2] == ("True", "Available")


def test_routers_wait_for_engines() -> None:
    assert routers(deployment()) == (
        "False",
        "WaitingForEngines",
        "0 of 2 routers know a prefill and a decode engine that serve",
    )


def test_without_a_deployment_routers_are_still_to_come() -> None:
    assert routers(None)[:2] == ("False", "Starting")
    assert routers({"metadata": {"name": "x"}})[1] == "WaitingForEngines"


def test_routers_that_fail_although_engines_serve_are_named() -> None:
    status, reason, message = routers(deployment(), engines_serve=True)
    assert (status, reason) == ("False", "RoutersNotReady")
    assert "Deployment llm-router-x" in message


def test_pods_that_may_not_be_made_are_told_with_the_api_servers_words() -> None:
    failure = {
        "type": "ReplicaFailure",
        "status": "True",
        "reason": "FailedCreate",
        "message": "exceeded quota",
    }
    status, reason, message = routers(deployment(0, failure))
    assert (status, reason) == ("False", "FailedCreate")
    assert message.endswith("; exceeded quota")


NEW = Target("new", {P: 1, D: 1})
STARTS = Step(Course({}, ("new",), "new"))
DRAINS = Step(Course({}, ("old",), "old", waits=True))
REFUSED = (Problem("RefusedByPolicy", "spec.x", "no"),)


def progress(
    step: Step, *engines: Engine, settled: bool = False, decision: Decision | None = None
) -> Verdict:
    return conditions.progressing(decision or Act(NEW), step, engines, NOW, settled=settled)


def test_what_is_under_way() -> None:
    assert progress(STARTS).reason == "StartingEngines"
    settled = progress(STARTS, settled=True)
    assert (settled.status, settled.reason) == ("False", "Settled")


def test_what_goes_on_although_parts_are_refused_is_not_called_halted() -> None:
    verdict = progress(STARTS, decision=Act(NEW, REFUSED))
    assert (verdict.status, verdict.reason) == ("True", "StartingEngines")
    assert verdict.message == (
        "revision new is being completed, apart from what is refused of it; see the condition "
        "Accepted"
    )


@pytest.mark.parametrize("decision", [Keep(NEW, REFUSED), Freeze("new", REFUSED)])
def test_what_is_kept_or_frozen_is_halted(decision: Decision) -> None:
    verdict = progress(STARTS, decision=decision)
    assert (verdict.status, verdict.reason) == ("False", "NotAccepted")


def test_an_accepted_change_whose_drain_goes_on_is_reported_though_a_later_spec_is_refused() -> (
    None
):
    verdict = progress(DRAINS, old(4, D), decision=Keep(NEW, REFUSED))
    assert (verdict.status, verdict.reason) == ("True", "DrainingOldRevision")


def old(serial: int, role: Role) -> Engine:
    return engine(serial, role, revision="old")


def test_a_drain_names_both_revisions_and_who_is_left() -> None:
    verdict = progress(DRAINS, old(4, D), old(0, P), settled=True)
    assert (verdict.status, verdict.reason) == ("True", "DrainingOldRevision")
    assert "revision new" in verdict.message
    assert verdict.message.endswith(
        "revision old finish their requests first: llm-decode-4, llm-prefill-0"
    )


@pytest.mark.parametrize(
    ("late_s", "reason"),
    [(-30, "DrainingOldRevision"), (60, "DrainingOldRevision"), (61, "DrainStuck")],
)
def test_a_drain_that_outlives_its_grace_names_the_remedy(late_s: int, reason: str) -> None:
    leaving = replace(old(4, D), deletion_deadline=NOW - timedelta(seconds=late_s))
    verdict = progress(DRAINS, leaving, old(0, P), settled=True)
    assert (verdict.status, verdict.reason) == ("True", reason)
    if reason == "DrainStuck":
        assert verdict.message == (
            "llm-decode-4 should have ended by now, so the node is out of reach: once it is known "
            "to be dead, delete the Node, or the pod with --force"
        )


GOOD = Verdict(ConditionType.ROUTER_READY, "True", "Available", "")
BAD = Verdict(ConditionType.ROUTER_READY, "False", "WaitingForEngines", "0 of 1 routers")
BOTH = (engine(0, P), engine(4, D))


@pytest.mark.parametrize(
    ("router", "engines", "status", "reason"),
    [
        (GOOD, BOTH, "True", "Serving"),
        (GOOD, BOTH[:1], "False", "NoEngine"),
        (GOOD, BOTH[1:], "False", "NoEngine"),
        (GOOD, (), "False", "NoEngine"),
        (BAD, BOTH, "False", "WaitingForEngines"),
        (BAD, (), "False", "NoEngine"),
        (GOOD, (BOTH[0], engine(4, D, EngineState.UNREADY)), "False", "NoEngine"),
        (GOOD, (BOTH[0], engine(4, D, EngineState.TERMINATING)), "False", "NoEngine"),
    ],
)
def test_ready_only_with_both_roles_and_a_router(
    router: Verdict, engines: tuple[Engine, ...], status: str, reason: str
) -> None:
    verdict = conditions.ready([], router, engines)
    assert (verdict.status, verdict.reason) == (status, reason)


def test_what_lacks_is_named() -> None:
    assert conditions.ready([], GOOD, ()).message == "no prefill and no decode engine serves"
    assert conditions.ready([], GOOD, BOTH[:1]).message == "no decode engine serves"


def test_a_service_that_serves_with_fewer_engines_says_so() -> None:
    lacking = Verdict(ConditionType.DECODE_READY, "False", "Starting", "1 of 2 engines serve")
    assert conditions.ready([lacking], GOOD, BOTH).message == (
        "requests are served; 1 of 2 engines serve"
    )


def stamped(
    status: Any, before: Condition | None, seconds: int = 0, message: str = "m"
) -> Condition:
    verdict = Verdict(ConditionType.READY, status, "Reason", message)
    old = [before] if before else []
    (made,) = conditions.stamped([verdict], old, 7, NOW + timedelta(seconds=seconds))
    return made


def test_a_first_condition_has_the_time_of_now() -> None:
    made = stamped("False", None)
    assert made.last_transition_time == "2026-05-04T12:00:00Z"
    assert made.observed_generation == 7


STATUSES = st.sampled_from(["True", "False", "Unknown"])


@given(st.lists(st.tuples(STATUSES, st.sampled_from(["a", "b"])), min_size=2, max_size=8))
def test_a_conditions_time_moves_exactly_when_its_status_does(story: list[tuple[str, str]]) -> None:
    before = stamped(story[0][0], None)
    for seconds, (status, message) in enumerate(story[1:], 1):
        now = stamped(status, before, seconds, message)
        moved = now.last_transition_time != before.last_transition_time
        assert moved == (now.status != before.status)
        assert now.message == message
        if moved:
            assert now.last_transition_time == conditions.timestamp(later(seconds))
        before = now


@given(st.text(max_size=40).map(lambda text: text * 200))
def test_a_message_of_any_length_fits_the_schema(text: str) -> None:
    made = stamped("True", None, message=text)
    assert len(made.message) <= 4096
    assert made.message == text or (made.message.endswith("...") and len(made.message) == 4096)


def test_a_thousand_pods_in_one_message_fit_the_schema() -> None:
    many = [engine(n, D, EngineState.STARTING, revision=REVISION) for n in range(1000)]
    verdict = conditions.role_ready(D, many, 1000, NONE)
    assert len(conditions.stamped([verdict], [], 1, NOW)[0].message) == 4096


def checked(*differences: str, **found: Any) -> tuple[str, str, str]:
    assessment = Assessment(Version(0, 33), **found)
    verdict = conditions.contract_checked(assessment, differences)
    assert verdict.type == ConditionType.CONTRACT_CHECKED
    return verdict.status, verdict.reason, verdict.message


def test_a_spec_that_was_checked_whole_is_told_by_whose_rules() -> None:
    assert checked() == ("True", "Checked", "checked against the rules of vLLM 0.33.0")


def test_what_was_not_checked_is_named() -> None:
    assert checked(unchecked=("a", "b")) == ("Unknown", "FactsUnstated", "a; b")


def test_a_version_that_nobody_states_is_asked_for() -> None:
    status, reason, message = checked(unknown=True, unchecked=("a",))
    assert (status, reason) == ("Unknown", "VersionUnstated")
    assert message.endswith("state it in spec.engine.version (which makes a new revision); a")


def test_a_newer_version_is_a_warning() -> None:
    status, reason, message = checked(newer=True)
    assert (status, reason) == ("False", "VersionNewer")
    assert "the rules of 0.33.0 are applied" in message


def test_of_a_version_that_is_too_old_no_rules_are_known() -> None:
    verdict = conditions.contract_checked(Assessment(Version(0, 19, 1), too_old=True), ["x"])
    assert (verdict.status, verdict.reason) == ("False", "VersionTooOld")
    assert verdict.message == "no rules are known for vLLM 0.19.1"


def test_what_engines_tell_otherwise_goes_first() -> None:
    assert checked("x", "y", newer=True, unchecked=("a",)) == ("False", "FactsDiffer", "x; y")


def allocated(
    *engines: Engine, exhausted: str = "", last: LastFailure | None = None, created: int = 0
) -> tuple[str, str, str]:
    failures = CrashRecord(1, NOW, last) if last else NONE
    blocks = [PortBlock(20_000 + 4 * index, 4) for index in range(created)]
    creations = tuple(Creation(f"p{b.base}", D, REVISION, b, b.base) for b in blocks)
    step = Step(Course({}, (), REVISION), creations=creations, exhausted=exhausted)
    records, counts = {P: NONE, D: failures}, {P: 1, D: 2}
    verdict = conditions.ports_allocated(step, engines, counts, records, "widen it")
    assert verdict.type == ConditionType.PORTS_ALLOCATED
    return verdict.status, verdict.reason, verdict.message


def test_engines_that_live_or_are_about_to_have_ports() -> None:
    told = ("True", "Allocated", "every engine has its block")
    assert allocated(engine(0, P), engine(4, D), engine(8, D)) == told
    assert allocated(created=3) == told


def test_engines_that_wait_for_something_else_than_ports_are_not_said_to_have_some() -> None:
    told = "2 of 3 engines have their block; the others wait for something else"
    assert allocated(engine(0, P), engine(4, D)) == ("True", "Allocated", told)


def test_without_engines_nothing_is_known_of_ports() -> None:
    assert allocated()[:2] == ("Unknown", "NoEngines")


def test_a_shortage_is_told_with_count_and_remedy() -> None:
    assert allocated(engine(0, P), exhausted="no 4 ports") == (
        "False",
        "PortsExhausted",
        "1 of 3 engines have ports: no 4 ports; widen it",
    )


@pytest.mark.parametrize("reason", ["HostPortTaken", "PortInUse"])
def test_ports_that_others_hold_are_told_until_the_role_serves(reason: str) -> None:
    last = LastFailure(pod="llm-decode-0", reason=reason, message="words")
    status, told, message = allocated(engine(0, P), last=last)
    assert (status, told) == ("False", reason)
    assert message == (
        "the ports that llm-decode-0 was given are taken by others; a decode engine with other "
        "ports follows; should they all be, free some, or widen it: words"
    )


@pytest.mark.parametrize("state", [EngineState.STARTING, EngineState.READY, EngineState.UNREADY])
def test_once_the_successors_are_past_that_point_the_ports_are_theirs(state: EngineState) -> None:
    last = LastFailure(pod="llm-decode-0", reason="PortInUse", message="words")
    engines = [engine(0, P), engine(4, D, state), engine(8, D, state)]
    assert allocated(*engines, last=last) == ("True", "Allocated", "every engine has its block")


def test_another_end_says_nothing_about_ports() -> None:
    last = LastFailure(pod="llm-decode-0", reason="Error", message="words")
    assert allocated(engine(0, P), last=last)[0] == "True"

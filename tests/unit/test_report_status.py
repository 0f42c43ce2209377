"""The status is whole, bounded, and the same for the same observation."""

from __future__ import annotations

import dataclasses

import pytest
from moriio_operator.api.deployment import Owner
from moriio_operator.api.problem import Problem
from moriio_operator.api.status import EngineState, LastFailure, Status
from moriio_operator.facts.terms import ROLES, Role
from moriio_operator.observe.engine import Engine
from moriio_operator.observe.failure import Failure
from moriio_operator.plan.crashes import CrashRecord
from moriio_operator.plan.decision import Act, Decision, Freeze, Keep, Target
from moriio_operator.plan.step import Step
from moriio_operator.plan.strategy import Course
from moriio_operator.plan.view import RevisionView
from moriio_operator.report.status import Outcome, report

from unit.samples import NOW, REVISION, Json, engine, later, owner

P, D = Role.PREFILL, Role.DECODE
BOTH = [engine(0, P), engine(4, D)]
ROUTER: Json = {
    "metadata": {"name": "llm-router-x"},
    "status": {"replicas": 1, "updatedReplicas": 1, "readyReplicas": 1},
}


ACCEPTED = {P: 1, D: 1}
NO = (Problem("RefusedByPolicy", "spec.x", "no"),)


def status(
    engines: list[Engine],
    *,
    whose: Owner | None = None,
    old: Status | None = None,
    decision: Decision | None = None,
    step: Step | None = None,
    router: Json | None = ROUTER,
    problems: tuple[Problem, ...] = (),
    seconds: float = 0,
    before: dict[str, dict[Role, int]] | None = None,
) -> Status:
    """The status; `before` are the counts that were accepted of revisions before this pass."""
    whose = whose or owner()
    asked = Target(REVISION, {role: whose.spec.role(role).replicas for role in ROLES})
    names = dict.fromkeys((REVISION, *(engine.revision for engine in engines)))
    views = tuple(
        RevisionView(
            name, tuple(e for e in engines if e.revision == name), (before or {}).get(name)
        )
        for name in names
    )
    outcome = Outcome(decision or Act(asked), step or STEP, views, (), problems)
    return report(whose, old or Status(), outcome, router, later(seconds))


STEP = Step(Course({}, (REVISION,), REVISION), cursor=8)


def verdicts(made: Status) -> dict[str, str]:
    return {condition.type: condition.status for condition in made.conditions}


def test_a_service_that_serves() -> None:
    made = status(BOTH)
    assert verdicts(made) == {
        "Accepted": "True",
        # The sample does not state what is known of its model.
        "ContractChecked": "Unknown",
        "PortsAllocated": "True",
        "PrefillReady": "True",
        "DecodeReady": "True",
        "RouterReady": "True",
        "Progressing": "False",
        "Ready": "True",
    }
    assert made.endpoint == "http://llm.team.svc:8000"
    assert (made.port_allocation.cursor, made.revision, made.observed_generation) == (
        8,
        REVISION,
        1,
    )


def test_conditions_come_in_the_order_in_which_a_service_comes_up() -> None:
    assert [c.type for c in status([]).conditions] == [
        "Accepted",
        "ContractChecked",
        "PortsAllocated",
        "PrefillReady",
        "DecodeReady",
        "RouterReady",
        "Progressing",
        "Ready",
    ]


def test_the_same_observation_later_gives_the_same_status() -> None:
    first = status(BOTH)
    assert status(BOTH, old=first, seconds=3600) == first


def test_the_order_in_which_the_api_lists_pods_changes_nothing() -> None:
    assert status(BOTH) == status(BOTH[::-1])


@pytest.mark.parametrize(
    ("engines", "summary"),
    [
        ([], ("0/1", "0/1", "Starting")),
        (BOTH, ("1/1", "1/1", "")),
        ([BOTH[0]], ("1/1", "0/1", "Starting")),
        ([engine(0, P, EngineState.UNREADY), BOTH[1]], ("0/1", "1/1", "Unready")),
    ],
)
def test_the_columns_count_and_give_the_first_reason(
    engines: list[Engine], summary: tuple[str, str, str]
) -> None:
    made = status(engines).summary
    assert made is not None
    assert (made.prefill, made.decode, made.reason) == summary


def test_a_refused_spec_gives_its_reason_to_the_columns() -> None:
    made = status(BOTH, problems=NO, decision=Keep(Target(REVISION, ACCEPTED), NO))
    assert made.summary is not None
    assert made.summary.reason == "RefusedByPolicy"
    assert verdicts(made)["Ready"] == "True"
    assert verdicts(made)["Progressing"] == "False"


@pytest.mark.parametrize("counts", [(1, 0, 1), (2, 1, 1), (1, 1, 0), (0, 0, 0)])
def test_while_a_router_is_missing_or_old_something_is_under_way(
    counts: tuple[int, int, int],
) -> None:
    names = ("replicas", "updatedReplicas", "readyReplicas")
    router = {**ROUTER, "status": dict(zip(names, counts, strict=True))}
    assert verdicts(status(BOTH, router=router))["Progressing"] == "True"


def test_while_an_engine_is_missing_something_is_under_way() -> None:
    assert verdicts(status(BOTH[:1]))["Progressing"] == "True"


def test_roles_count_living_and_ready_engines_of_the_revision() -> None:
    engines = [
        *BOTH,
        engine(8, D, EngineState.STARTING),
        engine(12, D, EngineState.TERMINATING),
        engine(16, D, EngineState.ENDED),
        engine(20, D, revision="old"),
    ]
    whose = owner({"decode": {"replicas": 2}})
    role = status(engines, whose=whose).roles[1]
    assert role.revision == REVISION
    assert (role.name, role.desired, role.pods, role.ready) == ("decode", 2, 2, 1)


def test_the_crash_record_is_written() -> None:
    last = LastFailure(pod="llm-decode-4", reason="Error", message="exit code 1")
    failures = {(REVISION, P): CrashRecord(), (REVISION, D): CrashRecord(2, NOW, last)}
    prefill, decode = status(BOTH[:1], step=dataclasses.replace(STEP, failures=failures)).roles
    assert (prefill.failures, prefill.last_failure_time, prefill.last_failure) == (0, None, None)
    assert (decode.failures, decode.last_failure) == (2, last)
    assert decode.last_failure_time == "2026-05-04T12:00:00Z"


def test_every_incarnation_is_listed_with_its_block() -> None:
    leaving = dataclasses.replace(
        engine(8, D, EngineState.TERMINATING), node="n1", address="198.18.0.9"
    )
    made = status([*BOTH, leaving]).engines
    assert [each.pod for each in made] == ["llm-decode-4", "llm-decode-8", "llm-prefill-0"]
    assert made[1].model_dump() == {
        "pod": "llm-decode-8",
        "role": "decode",
        "revision": REVISION,
        "port_base": 20_008,
        "ports": 4,
        "state": EngineState.TERMINATING,
        "served": False,
        "node": "n1",
        "address": "198.18.0.9",
    }


def test_engines_are_sorted_by_number_not_as_text() -> None:
    made = status([engine(n, D) for n in (100, 12, 8)]).engines
    assert [each.pod for each in made] == ["llm-decode-8", "llm-decode-12", "llm-decode-100"]


def test_a_thousand_engines_fit_and_more_leave_out_those_that_leave() -> None:
    living = [engine(n, D) for n in range(1000)]
    assert len(status(living).engines) == 1000
    gone = [engine(n, P, EngineState.TERMINATING) for n in range(2000, 2500)]
    made = status([*gone, *living]).engines
    assert len(made) == 1024
    assert sum(1 for each in made if each.state is EngineState.READY) == 1000


def test_the_longest_words_of_an_engine_fit_the_schema() -> None:
    failure = Failure("Error", "exit code 1; its log ends: " + "é" * 2003)
    failures = LastFailure(pod="llm-decode-4", reason="Error", message=failure.message)
    records = {(REVISION, D): CrashRecord(1, NOW, failures)}
    step = dataclasses.replace(STEP, failures=records)
    made = status([engine(4, D, EngineState.ENDED, failure=failure)], step=step)
    assert Status.from_object({"status": made.to_object()}) == made


OTHER = {P: 6, D: 6}
ASKS_FOR_SIX = {"prefill": {"replicas": 6}, "decode": {"replicas": 6}}


def test_counts_of_a_spec_that_is_refused_are_never_recorded() -> None:
    whose = owner(ASKS_FOR_SIX)
    nothing = status([], whose=whose, decision=Freeze(None, NO), problems=NO)
    assert nothing.roles == []
    assert nothing.revision is None
    frozen = status(
        BOTH, whose=whose, decision=Freeze(REVISION, NO), problems=NO, before={REVISION: ACCEPTED}
    )
    assert [role.desired for role in frozen.roles] == [1, 1]
    kept = Keep(Target(REVISION, ACCEPTED), NO)
    assert [role.desired for role in status(BOTH, whose=whose, decision=kept).roles] == [1, 1]


def test_roles_are_kept_per_revision() -> None:
    engines = [engine(0, P, revision="old"), engine(4, D, revision="old")]
    made = status(engines, before={"old": OTHER})
    found = {(role.name, role.revision): role.desired for role in made.roles}
    assert found == {
        ("prefill", REVISION): 1,
        ("decode", REVISION): 1,
        ("prefill", "old"): 6,
        ("decode", "old"): 6,
    }


def test_engines_of_an_old_revision_are_not_counted_against_the_new_ones_counts() -> None:
    engines = [engine(n, P, revision="old") for n in (0, 4, 8)]
    made = status(engines, step=dataclasses.replace(STEP, course=Course({}, ("old",), "old")))
    assert made.summary is not None
    assert (made.summary.prefill, verdicts(made)["PrefillReady"]) == ("0/1", "False")


def test_what_is_about_to_be_deleted_does_not_count_as_serving_any_more() -> None:
    made = status(BOTH, step=dataclasses.replace(STEP, deletions=tuple(BOTH)))
    assert verdicts(made)["Ready"] == "False"
    assert {each.state for each in made.engines} == {EngineState.TERMINATING}

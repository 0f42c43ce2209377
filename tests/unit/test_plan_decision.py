"""One decision per pass: act, keep or freeze, and no count of a refused spec in any of them."""

from __future__ import annotations

import pytest
from moriio_operator.api.problem import Problem
from moriio_operator.facts.terms import Role
from moriio_operator.observe.engine import Engine
from moriio_operator.plan.decision import Act, Decision, Freeze, Keep, Refusal, Target, judge
from moriio_operator.plan.view import EngineShape, RevisionView

from unit.samples import engine

P, D = Role.PREFILL, Role.DECODE
ONE, SIX = {P: 1, D: 1}, {P: 6, D: 6}
ASKED = Target("new", SIX)
NO = Problem("RefusedByPolicy", "spec.x", "no")
SHAPE = EngineShape({P: 4, D: 4})


def pair(revision: str) -> tuple[Engine, ...]:
    return engine(0, P, revision=revision), engine(4, D, revision=revision)


OLD = RevisionView("old", pair("old"), ONE, SHAPE)
NEW = RevisionView("new", (), None, SHAPE)
RUNS = RevisionView("new", pair("new"), ONE, SHAPE)


def decided(
    *views: RevisionView,
    accepted: str | None = "old",
    problems: tuple[Problem, ...] = (),
    refusals: tuple[Refusal, ...] = (),
) -> Decision:
    return judge(ASKED, accepted, views, problems, refusals)


def test_a_spec_without_problems_is_acted_on() -> None:
    assert decided(OLD, NEW) == Act(ASKED)
    assert decided(NEW, accepted=None) == Act(ASKED)


def test_while_a_spec_is_refused_what_was_accepted_last_is_kept_with_its_counts() -> None:
    assert decided(OLD, NEW, problems=(NO,)) == Keep(Target("old", ONE), (NO,))


def test_what_was_accepted_last_is_kept_although_others_still_drain() -> None:
    accepted = RevisionView("newer", (), ONE, SHAPE)
    found = decided(OLD, accepted, accepted="newer", problems=(NO,))
    assert found == Keep(Target("newer", ONE), (NO,))


@pytest.mark.parametrize(
    "view",
    [
        RevisionView("old", pair("old"), ONE, None),
        RevisionView("old", pair("old"), ONE, SHAPE, allowed=False),
        RevisionView("old", pair("old"), {}, SHAPE),
    ],
    ids=["no templates", "forbidden by now", "no counts"],
)
def test_what_cannot_be_kept_is_frozen(view: RevisionView) -> None:
    assert decided(view, NEW, problems=(NO,)) == Freeze("old", (NO,))


def test_with_nothing_accepted_yet_a_refused_spec_is_frozen() -> None:
    assert decided(NEW, accepted=None, problems=(NO,)) == Freeze(None, (NO,))


@pytest.mark.parametrize("role", [P, None], ids=["engines", "another child"])
def test_what_the_api_server_refuses_of_a_revision_to_come_keeps_the_one_before(
    role: Role | None,
) -> None:
    refusal = Refusal("new", role, NO)
    assert decided(OLD, NEW, refusals=(refusal,)) == Keep(Target("old", ONE), (NO,))


@pytest.mark.parametrize("role", [P, None], ids=["engines", "another child"])
def test_what_the_api_server_refuses_of_a_revision_that_runs_blocks_that_part_alone(
    role: Role | None,
) -> None:
    found = decided(RUNS, accepted="new", refusals=(Refusal("new", role, NO),))
    assert found == Act(ASKED, (NO,), frozenset() if role is None else frozenset({role}))


def test_what_is_only_to_be_waited_for_is_no_problem() -> None:
    found = decided(OLD, NEW, refusals=(Refusal("new", P, None),))
    assert found == Act(ASKED, (), frozenset({P}))


def test_a_problem_of_both_roles_is_reported_once() -> None:
    refusals = (Refusal("new", P, NO), Refusal("new", D, NO))
    assert decided(OLD, NEW, refusals=refusals) == Keep(Target("old", ONE), (NO,))


def test_what_is_refused_of_the_kept_revision_blocks_it_without_a_problem_of_its_own() -> None:
    other = Problem("TemplateRefused", "spec.decode", "no")
    found = decided(OLD, NEW, problems=(NO,), refusals=(Refusal("old", D, other),))
    assert found == Keep(Target("old", ONE), (NO,), frozenset({D}))


def test_engines_are_not_made_anew_for_a_revision_whose_children_are_refused() -> None:
    gone = RevisionView("old", (), ONE, SHAPE)
    found = decided(gone, NEW, problems=(NO,), refusals=(Refusal("old", None, NO),))
    assert found == Freeze("old", (NO,))

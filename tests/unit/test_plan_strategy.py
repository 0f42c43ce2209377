"""Stop and start: all other revisions go before the target comes."""

from __future__ import annotations

from moriio_operator.facts.terms import Role
from moriio_operator.plan.decision import Target
from moriio_operator.plan.strategy import Course, as_it_is, stop_and_start
from moriio_operator.plan.view import RevisionView

from unit.samples import engine

P, D = Role.PREFILL, Role.DECODE
NEW = Target("new", {P: 1, D: 2})
NONE = {P: 0, D: 0}


def living(name: str) -> RevisionView:
    return RevisionView(name, (engine(0, P, revision=name),))


def test_alone_the_target_gets_its_counts_and_its_clients() -> None:
    for views in ([], [living("new")], [RevisionView("old"), living("new")]):
        assert stop_and_start(views, NEW) == Course({"new": NEW.counts}, ("new",), "new")


def test_while_others_live_they_go_and_keep_their_clients() -> None:
    found = stop_and_start([living("old"), RevisionView("new")], NEW)
    assert found == Course({"old": NONE}, ("old",), "old", waits=True)


def test_any_number_of_others_may_live() -> None:
    found = stop_and_start([living("older"), living("old"), living("new")], NEW)
    assert found == Course({"older": NONE, "old": NONE}, ("older", "old"), "older", waits=True)


def test_as_it_is_names_no_counts() -> None:
    assert as_it_is([living("old")], "new") == Course({}, ("old",), "old")
    assert as_it_is([], "new") == Course({}, (), "new")

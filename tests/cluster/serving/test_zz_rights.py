"""After all other tests of a run: the operator asked for nothing that it may not do."""

from __future__ import annotations

from bed.cluster import Bed
from stage import audit


def test_no_call_of_the_operator_was_forbidden(operator: Bed) -> None:
    made = [c for c in audit.calls(operator.audit_log) if c.user == audit.OPERATOR_USER]
    assert {c.verb for c in made} >= {"get", "list", "watch"}, "the search is blind"
    assert [c for c in made if not c.allowed] == []

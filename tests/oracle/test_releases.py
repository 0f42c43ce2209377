"""Every release in the lock against every part of the contract."""

from __future__ import annotations

import pytest
from moriio_operator.facts import versions

from oracle.compare import apply
from oracle.release import pinned
from oracle.rules import RULES
from oracle.sources import locked

pytestmark = pytest.mark.load(2)


def test_the_lock_holds_every_release_that_the_contract_says_it_knows() -> None:
    assert list(locked()) == [str(version) for version in versions.KNOWN]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("version", locked())
def test_the_contract_says_what_the_release_does(version: str, rule: str) -> None:
    differences = [str(row) for row in apply(rule, RULES[rule], pinned(version))]
    assert not differences, "\n".join(differences[:20])

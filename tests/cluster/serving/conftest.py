"""The operator, installed once a run by its chart, and namespaces that its policy allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict

import pytest
from bed.cluster import Bed
from bed.pytest_plugin import drop_namespace, make_namespace
from demo import show
from stage import alone, definition
from stage.installation import RESYNC_S, install
from stage.traffic import PROMPTS, Answer

# The admin's policy names namespaces, so those of all tests are named before the first.
_POOL = tuple(f"serving-{index}" for index in range(120))


@pytest.fixture(scope="session")
def operator(bed: Bed) -> Bed:
    """Give the bed with the operator on it."""
    bed.records.once("operator", lambda: _install_first(bed))
    return bed


def _install_first(bed: Bed) -> None:
    definition.remove(bed)
    _install(bed, ())


def _install(bed: Bed, values: Sequence[str]) -> None:
    install(bed, [*_POOL, show.NAMESPACE], values=[f"resyncSeconds={RESYNC_S}", *values])


@pytest.fixture(scope="module")
def reinstall(operator: Bed) -> Iterator[Callable[[Sequence[str]], None]]:
    """Give a way to install the chart with other values besides the stage's, for one module.

    Tests that use it carry the mark `alone`, as all others know only the stage's values.
    """
    yield lambda values: _install(operator, values)
    _install(operator, ())


def _fresh_namespace(bed: Bed) -> str:
    number = bed.records.next_number("serving-namespaces")
    assert number < len(_POOL), f"all {len(_POOL)} namespaces are used: name more in _POOL"
    make_namespace(bed, _POOL[number])
    return _POOL[number]


@pytest.fixture(scope="module")
def new_namespace(operator: Bed) -> Iterator[Callable[[], str]]:
    """Give a way to make a namespace that may run privileged pods; it stays for one module."""
    names: list[str] = []

    def made() -> str:
        names.append(_fresh_namespace(operator))
        return names[-1]

    yield made
    # Engines that nobody asks any more would take memory and time from those of other modules.
    for name in names:
        drop_namespace(operator, name)


@pytest.fixture(scope="session")
def expected(operator: Bed) -> list[Answer]:
    """What the model says when it is served alone."""
    found = operator.records.once(
        "expected", lambda: [asdict(a) for a in alone.answers(operator, _fresh_namespace(operator))]
    )
    answers = [Answer(**each) for each in found]
    assert [answer.status for answer in answers] == [200] * len(PROMPTS)
    # Answers that did not depend on the prompt would prove nothing.
    assert len({answer.text for answer in answers}) == len(PROMPTS)
    return answers


@pytest.fixture
def namespace(operator: Bed) -> Iterator[str]:
    """Give a namespace that may run privileged pods, for one test."""
    name = _fresh_namespace(operator)
    yield name
    drop_namespace(operator, name)

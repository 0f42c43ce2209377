"""The operator, installed once a run by its chart, and namespaces that its policy allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest
from bed.cluster import Bed
from bed.pytest_plugin import make_namespace
from demo import show
from stage import alone
from stage.installation import RESYNC_S, install
from stage.traffic import PROMPTS, Answer

# The admin's policy names namespaces, so those of all tests are named before the first.
_POOL = tuple(f"serving-{index}" for index in range(120))


@pytest.fixture(scope="session")
def operator(bed: Bed) -> Bed:
    """Give the bed with the operator on it."""
    _install(bed, ())
    return bed


def _install(bed: Bed, values: Sequence[str]) -> None:
    install(bed, [*_POOL, show.NAMESPACE], values=[f"resyncSeconds={RESYNC_S}", *values])


@pytest.fixture(scope="module")
def reinstall(operator: Bed) -> Iterator[Callable[[Sequence[str]], None]]:
    """Give a way to install the chart with other values besides the stage's, for one module."""
    yield lambda values: _install(operator, values)
    _install(operator, ())


@pytest.fixture(scope="session")
def new_namespace(operator: Bed) -> Callable[[], str]:
    """Give a way to make a namespace that may run privileged pods; it stays."""
    names = iter(_POOL)

    def made() -> str:
        name = next(names, None)
        assert name is not None, f"all {len(_POOL)} allowed namespaces are used: name more in _POOL"
        make_namespace(operator, name)
        return name

    return made


@pytest.fixture(scope="session")
def expected(operator: Bed, new_namespace: Callable[[], str]) -> list[Answer]:
    """What the model says when it is served alone."""
    found = alone.answers(operator, new_namespace())
    assert [answer.status for answer in found] == [200] * len(PROMPTS)
    # Answers that did not depend on the prompt would prove nothing.
    assert len({answer.text for answer in found}) == len(PROMPTS)
    return found


@pytest.fixture
def namespace(operator: Bed, new_namespace: Callable[[], str]) -> Iterator[str]:
    """Give a namespace that may run privileged pods, for one test."""
    name = new_namespace()
    yield name
    operator.kubectl("delete", "namespace", name, "--wait=false")

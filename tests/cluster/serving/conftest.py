"""The operator, installed once a run by its chart, and namespaces that its policy allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest
from bed.cluster import Bed
from bed.command import wait_until
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
def free_namespaces() -> Iterator[str]:
    """Give the names of allowed namespaces, each once."""
    return iter(_POOL)


@pytest.fixture(scope="session")
def expected(operator: Bed, free_namespaces: Iterator[str]) -> list[Answer]:
    """What the model says when it is served alone."""
    name = next(free_namespaces)
    operator.kubectl("create", "namespace", name)
    found = alone.answers(operator, name)
    assert [answer.status for answer in found] == [200] * len(PROMPTS)
    # Answers that did not depend on the prompt would prove nothing.
    assert len({answer.text for answer in found}) == len(PROMPTS)
    return found


def made_namespace(bed: Bed, names: Iterator[str]) -> str:
    """Make the next allowed namespace."""
    name = next(names, None)
    assert name is not None, f"all {len(_POOL)} allowed namespaces are used: name more in _POOL"
    bed.kubectl("create", "namespace", name)
    account = ("-n", name, "get", "serviceaccount", "default", "--ignore-not-found")
    wait_until(
        lambda: bool(bed.kubectl(*account)), timeout_s=20, what=f"the service account of {name}"
    )
    return name


@pytest.fixture
def namespace(operator: Bed, free_namespaces: Iterator[str]) -> Iterator[str]:
    """Give a namespace that may run privileged pods, for one test."""
    name = made_namespace(operator, free_namespaces)
    yield name
    operator.kubectl("delete", "namespace", name, "--wait=false")

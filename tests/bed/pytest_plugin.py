"""pytest fixtures: one cluster for the run, a namespace for each test, and a report when one fails.

Load it with `pytest_plugins = ["bed.pytest_plugin"]`. A conftest chooses the bed's shape by a
session fixture `bed_config` of its own; another one may give a bed that is up already.
"""

from __future__ import annotations

import secrets
from collections.abc import Generator, Iterator

import pytest

from bed.cluster import Bed
from bed.command import wait_until
from bed.config import BedConfig

# After an absence of the API server the controller that makes accounts waits ever longer.
_ACCOUNT_TIMEOUT_S = 60
_NAMESPACES = "/api/v1/namespaces"


@pytest.fixture(scope="session")
def bed_config() -> BedConfig:
    """Shape of the run's bed; a conftest may override it."""
    return BedConfig()


@pytest.fixture(scope="session")
def standing_bed() -> Bed | None:
    """Give a bed that somebody else brought up for this run; a plugin may override it."""
    return None


@pytest.fixture(scope="session")
def bed(request: pytest.FixtureRequest, standing_bed: Bed | None) -> Iterator[Bed]:
    """Give the cluster of this run."""
    if standing_bed is not None:
        yield standing_bed
        return
    # Asked for here, since its images are built by asking.
    with Bed.up(request.getfixturevalue("bed_config")) as running:
        yield running


def drop_namespace(bed: Bed, name: str) -> None:
    """Delete a namespace; its end is not waited for."""
    bed.rest.ask("DELETE", f"{_NAMESPACES}/{name}")


def make_namespace(bed: Bed, name: str) -> None:
    """Make a namespace, and wait until pods can be made in it."""
    bed.rest.ask("POST", _NAMESPACES, {"metadata": {"name": name}})
    accounts = f"{_NAMESPACES}/{name}/serviceaccounts?fieldSelector=metadata.name%3Ddefault"
    wait_until(
        lambda: bool(bed.rest.get(accounts)["items"]),
        timeout_s=_ACCOUNT_TIMEOUT_S,
        what=f"the default service account of {name}, without which no pod can be made",
    )


@pytest.fixture
def namespace(bed: Bed) -> Iterator[str]:
    """Give the name of a fresh namespace; its deletion after the test is not waited for."""
    name = f"test-{secrets.token_hex(4)}"
    make_namespace(bed, name)
    yield name
    drop_namespace(bed, name)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to the report of a failed test what its namespace looks like now."""
    report = yield
    arguments = getattr(item, "funcargs", {})
    running, name = arguments.get("bed"), arguments.get("namespace")
    # Not after the teardown: the namespace is being deleted by then.
    if report.failed and report.when != "teardown" and isinstance(running, Bed) and name:
        report.sections.append((f"namespace {name}", running.diagnostics(name)))
    return report

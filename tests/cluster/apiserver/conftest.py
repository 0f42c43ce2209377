"""A real API server with our CRDs and without our chart: each test runs operators of its own.

The chart's operator watches all namespaces and would interfere, so of the chart the CRDs alone are
here.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

import pytest
from bed.cluster import Bed
from stage import definition
from stage.installation import NAMESPACE, RELEASE


@pytest.fixture(scope="session")
def kubeconfig(bed: Bed) -> Path:
    """Give the admin's kubeconfig of a cluster that serves our kinds."""
    installed = ("-n", NAMESPACE, "get", "deployment", RELEASE, "--ignore-not-found")
    assert not bed.kubectl(*installed), "the chart is installed: its operator acts here, too"
    definition.bring(bed)
    return bed.kubeconfig


@pytest.fixture
def fresh_name(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Give a maker of namespace names that nobody has."""
    stem = request.module.__name__.rpartition(".")[2].removeprefix("test_").replace("_", "-")
    return lambda: f"{stem}-{secrets.token_hex(3)}"

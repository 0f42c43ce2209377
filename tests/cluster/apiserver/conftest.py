"""A real API server with our CRDs and without our chart: each test runs operators of its own.

The chart's operator watches all namespaces and would interfere, so what is needed of the chart, the
CRDs alone, is here for the time of a module.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bed.cache import REPO
from bed.cluster import Bed
from stage.installation import NAMESPACE, RELEASE

_CRDS = str(REPO / "crds")


@pytest.fixture(scope="module")
def kubeconfig(bed: Bed) -> Iterator[Path]:
    """Give the admin's kubeconfig of a cluster that serves our kinds."""
    installed = ("-n", NAMESPACE, "get", "deployment", RELEASE, "--ignore-not-found")
    assert not bed.kubectl(*installed), "the chart is installed: its operator acts here, too"
    bed.kubectl("create", "-f", _CRDS)
    bed.kubectl("wait", "--for=condition=Established", "-f", _CRDS, "--timeout=20s")
    yield bed.kubeconfig
    bed.kubectl("delete", "-f", _CRDS, "--timeout=60s")


@pytest.fixture
def fresh_name(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Give a maker of namespace names that nobody has."""
    stem = request.module.__name__.rpartition(".")[2].removeprefix("test_").replace("_", "-")
    return lambda: f"{stem}-{secrets.token_hex(3)}"

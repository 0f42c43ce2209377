"""A real API server with our CRD and without our chart: each test runs operators of its own.

The chart's operator watches all namespaces and would interfere, so what is needed of the chart, the
CRD alone, is here for the time of a module.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bed.cache import REPO
from bed.cluster import Bed
from stage.installation import NAMESPACE, RELEASE

_CRD = REPO / "crds/moriio.dev_pddeployments.yaml"


@pytest.fixture(scope="module")
def kubeconfig(bed: Bed) -> Iterator[Path]:
    """Give the admin's kubeconfig of a cluster that serves our kind."""
    installed = ("-n", NAMESPACE, "get", "deployment", RELEASE, "--ignore-not-found")
    assert not bed.kubectl(*installed), "the chart is installed: its operator acts here, too"
    bed.kubectl("create", "-f", str(_CRD))
    bed.kubectl("wait", "--for=condition=Established", "-f", str(_CRD), "--timeout=20s")
    yield bed.kubeconfig
    bed.kubectl("delete", "-f", str(_CRD), "--timeout=60s")


@pytest.fixture
def fresh_name(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Give a maker of namespace names that nobody has."""
    stem = request.module.__name__.rpartition(".")[2].removeprefix("test_").replace("_", "-")
    return lambda: f"{stem}-{secrets.token_hex(3)}"

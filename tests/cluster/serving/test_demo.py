"""What `make demo` shows, on the cluster of the tests."""

from __future__ import annotations

import pytest
from bed.cluster import Bed
from demo import show

pytestmark = pytest.mark.load(2)


@pytest.fixture
def namespace() -> str:
    """The namespace that a failing test reports on."""
    return show.NAMESPACE


@pytest.mark.usefixtures("namespace")
def test_the_demo_proves_that_the_cache_crossed(
    operator: Bed, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        assert show.show(operator, print)
    finally:
        operator.kubectl("delete", "namespace", show.NAMESPACE, "--wait=false", check=False)
    shown = capsys.readouterr().out
    for part in (
        "node1   Ready",
        "demo-prefill-0 ",
        "Ready=True",
        "16 tokens",
        'source="local_compute"} = 3',
        "PROVED",
    ):
        assert part in shown

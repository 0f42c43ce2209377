"""The API server and etcd go away and come back: what serves goes on, and so does the operator."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable
from contextlib import suppress

import pytest
from bed.cluster import Bed
from bed.command import wait_until
from stage.deployments import stub
from stage.installation import NAMESPACE, RELEASE
from stage.service import Service

pytestmark = pytest.mark.alone

QUICK_S = 120


def health(address: str) -> int:
    """Ask a router how it is."""
    with (
        suppress(OSError),
        urllib.request.urlopen(f"http://{address}:8000/health", timeout=10) as r,
    ):
        return int(r.status)
    return 0


@pytest.mark.parametrize("part", ["api_server", "etcd"])
def test_a_control_plane_that_goes_and_comes_back_costs_nothing(
    operator: Bed, namespace: str, part: str
) -> None:
    service = Service.apply(operator, stub(namespace))
    service.wait_settled(QUICK_S)
    before = {pod["metadata"]["uid"] for pod in service.pods()}
    router = service.router_pod()["status"]["podIP"]

    stop: Callable[[], None] = getattr(operator, f"stop_{part}")
    start: Callable[[], None] = getattr(operator, f"start_{part}")
    stop()
    try:
        # Longer than the router remembers an engine that nobody registers.
        asked = [0]

        def serves_on() -> bool:
            assert health(router) == 200
            asked[0] += 1
            return asked[0] == 10

        wait_until(serves_on, timeout_s=60, what="the router to answer on", every_s=1)
    finally:
        start()

    service.patch(decode={"replicas": 2})
    service.wait_settled(QUICK_S)
    assert before < {pod["metadata"]["uid"] for pod in service.pods()}
    operator.kubectl("-n", NAMESPACE, "rollout", "status", f"deployment/{RELEASE}", "--timeout=60s")

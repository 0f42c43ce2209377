"""A steady stream of requests over a service that is scaled, drained and hurt meanwhile.

Planned changes cost no request. What is not planned costs those that were under way, and the
service is whole again by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from bed.cluster import Bed
from bed.command import wait_until
from prometheus_client.parser import text_string_to_metric_families
from stage.deployments import tiny
from stage.service import Service
from stage.steady import Steady, steady
from stage.traffic import metrics, prompt_tokens

pytestmark = pytest.mark.load(3)

QUICK_S = 90
REPAIRED_S = 180
CLIENTS = 4
# Requests that a test has to have seen, for their success to mean something.
MANY = 2 * CLIENTS + 1


@pytest.fixture(scope="module")
def service(operator: Bed, new_namespace: Callable[[], str]) -> Service:
    """One prefill and one decode engine behind two routers that pick in turn."""
    name = new_namespace()
    manifest = tiny(name, "pd", "Read")
    manifest["spec"]["router"]["replicas"] = 2
    made = Service.apply(operator, manifest)
    made.wait_settled()
    return made


@pytest.fixture
def namespace(service: Service) -> str:
    """The namespace that a failing test reports on."""
    return service.namespace


def running(pod: dict[str, Any]) -> float:
    """Requests that an engine works on."""
    return sum(
        sample.value
        for family in text_string_to_metric_families(metrics(pod))
        for sample in family.samples
        if sample.name == "vllm:num_requests_running"
    )


def routers(service: Service) -> list[dict[str, Any]]:
    """Router pods that are ready and here to stay."""
    selector = f"moriio.dev/deployment={service.name},moriio.dev/component=router"
    found = service.bed.kubectl_json("-n", service.namespace, "get", "pods", "-l", selector)
    return [
        pod
        for pod in found["items"]
        if "deletionTimestamp" not in pod["metadata"]
        and any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"]["conditions"])
    ]


def wait_whole(service: Service) -> None:
    """Wait until everything of the service is there, both routers among it."""
    service.wait_settled(REPAIRED_S)
    service.wait("two routers", lambda: len(routers(service)) == 2, QUICK_S)


def assert_none_failed(traffic: Steady) -> None:
    """Not one request failed, and there were many."""
    assert traffic.failed == []
    assert len(traffic.seen) >= MANY


@pytest.mark.usefixtures("namespace")
def test_a_decode_engine_comes_and_goes_without_a_failed_request(service: Service) -> None:
    with steady(service, model="tiny", clients=CLIENTS, tokens=128) as traffic:
        service.patch(decode={"replicas": 2})
        service.wait_settled(REPAIRED_S)
        both = service.pods("decode")
        assert len(both) == 2
        before = [prompt_tokens(pod) for pod in both]

        def both_work() -> bool:
            gained = [prompt_tokens(pod) - was for pod, was in zip(both, before, strict=True)]
            return all(g.external_kv_transfer > 0 for g in gained)

        wait_until(both_work, timeout_s=QUICK_S, what="both decode engines to receive tokens")

        newest = max(both, key=lambda pod: int(pod["metadata"]["name"].rpartition("-")[2]))
        wait_until(lambda: running(newest) > 0, timeout_s=30, what="a stream on the victim")
        service.patch(decode={"replicas": 1})
        busy = False

        def gone() -> bool:
            nonlocal busy
            pods = {pod["metadata"]["name"]: pod for pod in service.pods("decode")}
            victim = pods.get(newest["metadata"]["name"])
            if victim is not None and "deletionTimestamp" in victim["metadata"]:
                # It may end between the look at it and the question.
                try:
                    busy = busy or running(victim) > 0
                except OSError:
                    return False
            return victim is None

        wait_until(gone, timeout_s=REPAIRED_S, what="the newest decode engine to go")
        assert busy, "no stream was under way on the engine that was stopped"
        service.wait_settled(QUICK_S)
        traffic.wait_many(MANY)
    assert_none_failed(traffic)


@pytest.mark.usefixtures("namespace")
def test_a_router_is_drained_without_a_failed_request(service: Service) -> None:
    wait_whole(service)
    victim = routers(service)[0]["metadata"]["name"]
    with steady(service, model="tiny", clients=CLIENTS) as traffic:
        service.bed.kubectl("-n", service.namespace, "delete", "pod", victim, "--wait=true")
        wait_whole(service)
        traffic.wait_many(MANY)
    assert_none_failed(traffic)


@pytest.mark.usefixtures("namespace")
def test_a_router_that_is_killed_costs_only_the_requests_it_had(service: Service) -> None:
    wait_whole(service)
    victim = routers(service)[0]["metadata"]["name"]
    with steady(service, model="tiny", clients=CLIENTS) as traffic:
        killed = time.monotonic()
        service.bed.kill_process(service.namespace, victim, "router")
        service.wait(
            "the killed router to leave the Service",
            lambda: victim not in [pod["metadata"]["name"] for pod in routers(service)],
            QUICK_S,
        )
        wait_whole(service)
        whole = time.monotonic()
        wait_until(
            lambda: time.monotonic() > whole + 3, timeout_s=10, what="requests after the repair"
        )
    # Until kube-proxy knows, a client may meet the closed port and try again at once.
    refused = [each for each in traffic.failed if each.chunks == 0 and each.began > killed]
    cut = [each for each in traffic.failed if each not in refused]
    assert len(cut) <= CLIENTS
    assert all(each.began < whole for each in traffic.failed)
    assert any(each.began > whole for each in traffic.seen)


@pytest.mark.usefixtures("namespace")
def test_a_prefill_engine_that_is_killed_is_replaced_and_requests_succeed_again(
    service: Service,
) -> None:
    wait_whole(service)
    (victim,) = service.pods("prefill")
    name = victim["metadata"]["name"]
    with steady(service, model="tiny", clients=CLIENTS) as traffic:
        service.bed.kill_process(service.namespace, name, "engine")
        service.wait(
            "another prefill engine",
            lambda: name not in [pod["metadata"]["name"] for pod in service.pods("prefill")],
            QUICK_S,
        )
        service.wait_settled(REPAIRED_S)
        # A router learns of it by the registrar's next beat.
        whole = time.monotonic() + 3
        wait_until(
            lambda: time.monotonic() > whole + 5, timeout_s=20, what="requests after the repair"
        )
    assert [each for each in traffic.failed if each.began > whole] == []
    assert any(each.began > whole for each in traffic.seen)

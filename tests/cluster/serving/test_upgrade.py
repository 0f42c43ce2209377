"""Upgrades of the operator, and its absence, seen from a service that real engines serve meanwhile.

The tests share one deployment and stand in the order of its life.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import pytest
from bed.cluster import Bed
from bed.command import wait_until
from moriio_operator import __version__
from stage import audit, nextversion
from stage.deployments import tiny
from stage.installation import NAMESPACE, RELEASE
from stage.service import Service
from stage.steady import steady

pytestmark = [pytest.mark.alone, pytest.mark.load(3)]

QUICK_S = 90
REPAIRED_S = 180
LATER = (f"image.repository=localhost/moriio/{nextversion.NAME}",)

Reinstall = Callable[[Sequence[str]], None]


@pytest.fixture(scope="module")
def service(operator: Bed, new_namespace: Callable[[], str]) -> Service:
    """One prefill and one decode engine of the tiny model, serving."""
    name = new_namespace()
    made = Service.apply(operator, tiny(name, "pd", "Read"))
    made.wait_settled()
    return made


@pytest.fixture
def namespace(service: Service) -> str:
    """The namespace that a failing test reports on."""
    return service.namespace


def uids(service: Service) -> dict[str, str]:
    """All pods of the service, engines and routers, by name."""
    selector = f"moriio.dev/deployment={service.name}"
    found = service.bed.kubectl_json("-n", service.namespace, "get", "pods", "-l", selector)
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in found["items"]}


def looked_at(service: Service, change: Callable[[], None]) -> None:
    """Change the operator, and wait until the one that runs then has looked at the service."""
    change()
    began = audit.now()
    # An idle service is looked at when something of it changes, and else compared by lists.
    service.bed.kubectl(
        *("-n", service.namespace, "label", "service", service.name, "--overwrite"),
        f"looked-at={time.time_ns()}",
    )

    log = service.bed.audit_log
    wait_until(
        lambda: audit.looked_at(log, service.namespace, service.name, since=began),
        timeout_s=QUICK_S,
        what="the operator to look at the service",
        every_s=0.5,
    )


def runs_later(bed: Bed) -> bool:
    """Whether the operator that is installed is the later one."""
    found = bed.kubectl_json("-n", NAMESPACE, "get", "deployment", RELEASE)
    image: str = found["spec"]["template"]["spec"]["containers"][0]["image"]
    return f"/{nextversion.NAME}:" in image


def rendered_by(service: Service) -> tuple[str, str]:
    """Which version rendered the revision that runs: its engines, and its routers."""
    status = service.status()
    (revision,) = status["revisions"]
    assert revision["name"] == status["revision"]
    return revision["renderedBy"], revision["routerRenderedBy"]


def liveness_failures(service: Service) -> set[int]:
    """What the two renderers differ in, as the living engines have it."""
    return {
        pod["spec"]["containers"][0]["livenessProbe"]["failureThreshold"]
        for pod in service.pods()
        if "deletionTimestamp" not in pod["metadata"]
    }


def successor_of_a_deleted_decode(service: Service) -> None:
    """Delete the decode engine, and wait until another serves in its place."""
    (victim,) = service.pods("decode")
    name = victim["metadata"]["name"]
    service.bed.kubectl("-n", service.namespace, "delete", "pod", name, "--wait=false")
    service.wait(
        "the deleted engine to go",
        lambda: name not in [pod["metadata"]["name"] for pod in service.pods("decode")],
        REPAIRED_S,
    )
    service.wait_settled(REPAIRED_S)


@pytest.mark.usefixtures("namespace")
def test_an_upgrade_under_traffic_restarts_nothing(service: Service, reinstall: Reinstall) -> None:
    before = uids(service)
    with steady(service, model="tiny") as traffic:
        looked_at(service, lambda: reinstall(LATER))
        assert runs_later(service.bed)
        service.wait_settled(QUICK_S)
    assert uids(service) == before
    assert len(traffic.seen) > len(traffic.failed) == 0, traffic.failed[:3]
    assert rendered_by(service) == (__version__, __version__)


@pytest.mark.usefixtures("namespace")
def test_an_engine_that_comes_later_is_rendered_as_its_revision_was(service: Service) -> None:
    successor_of_a_deleted_decode(service)
    assert len(liveness_failures(service)) == 1
    assert nextversion.ENGINE_LIVENESS_FAILURES not in liveness_failures(service)


@pytest.mark.usefixtures("namespace")
def test_a_new_revision_is_rendered_by_the_later_operator(service: Service) -> None:
    service.patch(rollout={"drainTimeoutSeconds": 31})
    service.wait_settled(REPAIRED_S)
    assert liveness_failures(service) == {nextversion.ENGINE_LIVENESS_FAILURES}
    assert rendered_by(service) == (nextversion.VERSION, nextversion.VERSION)


@pytest.mark.usefixtures("namespace")
def test_the_way_back_under_traffic_restarts_nothing_either(
    service: Service, reinstall: Reinstall
) -> None:
    before = uids(service)
    with steady(service, model="tiny") as traffic:
        looked_at(service, lambda: reinstall(()))
        assert not runs_later(service.bed)
        service.wait_settled(QUICK_S)
    assert uids(service) == before
    assert len(traffic.seen) > len(traffic.failed) == 0, traffic.failed[:3]
    assert rendered_by(service) == (nextversion.VERSION, nextversion.VERSION)
    successor_of_a_deleted_decode(service)
    assert liveness_failures(service) == {nextversion.ENGINE_LIVENESS_FAILURES}


@pytest.mark.usefixtures("namespace")
def test_uninstalled_and_installed_again_the_operator_adopts_what_serves(
    service: Service, reinstall: Reinstall
) -> None:
    before, version = uids(service), service.object()["metadata"]["resourceVersion"]
    with steady(service, model="tiny") as traffic:
        # Helm takes an operator's rights before it takes the operator; what it is forbidden in
        # between would be held against the chart by the test of rights.
        operator = ("-n", NAMESPACE, "scale", f"deployment/{RELEASE}", "--replicas=0")
        service.bed.kubectl(*operator)
        service.bed.kubectl(
            "-n", NAMESPACE, "wait", "pod", "--all", "--for=delete", "--timeout=60s"
        )
        service.bed.helm("uninstall", RELEASE, "--namespace", NAMESPACE, "--wait")
        kept = service.bed.kubectl("get", "crd")
        assert "pddeployments.moriio.dev" in kept
        assert "pdreports.moriio.dev" in kept
        looked_at(service, lambda: reinstall(()))
        service.wait_settled(QUICK_S)
    assert uids(service) == before
    assert service.object()["metadata"]["resourceVersion"] == version
    assert len(traffic.seen) > len(traffic.failed) == 0, traffic.failed[:3]

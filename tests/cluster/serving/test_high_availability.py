"""Two replicas of the operator: one leads, and whatever happens to it the other takes over.

The stage's operator is scaled to two, one a node, for these tests and back to one afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import pytest
from bed.cluster import Bed
from bed.command import wait_until
from moriio_operator.kube.kinds import LEASE
from stage import audit
from stage.deployments import stub
from stage.installation import NAMESPACE, RELEASE
from stage.service import Service

pytestmark = pytest.mark.alone

QUICK_S = 90
# The chart's default times, in seconds, and the slack of two polls of the standby.
LEASE_S = 15
POLL_S = 2
TAKEN_OVER_S = LEASE_S + 2 * POLL_S + 2

SPREAD = (
    "replicas=2",
    "topologySpreadConstraints[0].maxSkew=1",
    "topologySpreadConstraints[0].topologyKey=kubernetes.io/hostname",
    "topologySpreadConstraints[0].whenUnsatisfiable=DoNotSchedule",
    f"topologySpreadConstraints[0].labelSelector.matchLabels.app\\.kubernetes\\.io/name={RELEASE}",
    # A node that is cut off shall not lose its pod: the tests look at how that ended.
    "tolerations[0].key=node.kubernetes.io/unreachable",
    "tolerations[0].operator=Exists",
    "tolerations[0].effect=NoExecute",
    "tolerations[0].tolerationSeconds=300",
)


@pytest.fixture(scope="module")
def pair(operator: Bed, reinstall: Callable[[Sequence[str]], None]) -> Bed:
    """Two replicas, on two nodes."""
    reinstall(SPREAD)
    return operator


def pods(bed: Bed) -> dict[str, Any]:
    """The operator's pods that are here to stay, by name."""
    selector = "app.kubernetes.io/component=operator"
    found = bed.kubectl_json("-n", NAMESPACE, "get", "pods", "-l", selector)["items"]
    return {
        pod["metadata"]["name"]: pod for pod in found if "deletionTimestamp" not in pod["metadata"]
    }


def holder(bed: Bed) -> str:
    """Who holds the Lease, as a candidate names itself: its pod and its life."""
    lease = bed.rest.get(LEASE.path(NAMESPACE, RELEASE))
    return str(lease["spec"].get("holderIdentity") or "")


def leader(bed: Bed) -> str:
    """The leader's pod."""
    wait_until(lambda: bool(holder(bed)), timeout_s=TAKEN_OVER_S, what="a leader")
    return holder(bed).partition("_")[0]


def taken_over(bed: Bed, before: str, timeout_s: float) -> float:
    """Wait until another life leads than `before`; give the seconds that it took."""
    began = time.monotonic()
    wait_until(
        lambda: holder(bed) not in ("", before),
        timeout_s=timeout_s,
        what=f"another leader than {before}",
    )
    return time.monotonic() - began


def end(pod: dict[str, Any]) -> dict[str, Any]:
    """How the operator's container ended last; empty if it never did."""
    (status,) = pod["status"]["containerStatuses"]
    ended: dict[str, Any] = status["lastState"].get("terminated", {})
    return ended


def given_up(bed: Bed, name: str) -> datetime:
    """Wait until a leader that lost its Lease has ended with code 1; give when."""
    wait_until(
        lambda: end(pods(bed)[name]).get("exitCode") == 1,
        timeout_s=QUICK_S,
        what=f"{name}, which leads no more, to end with code 1",
    )
    return datetime.fromisoformat(end(pods(bed)[name])["finishedAt"])


def wait_settled_pair(bed: Bed) -> None:
    """Both replicas ready, and one leads."""

    def settled() -> bool:
        # A new one has no statuses before its kubelet has seen it.
        statuses = [pod["status"].get("containerStatuses", []) for pod in pods(bed).values()]
        ready = [status["ready"] for of_pod in statuses for status in of_pod]
        return ready == [True, True] and leader(bed) in pods(bed)

    wait_until(settled, timeout_s=QUICK_S, what="two replicas, one of which leads", every_s=0.5)


def staying(service: Service) -> int:
    """Decode engines that are not on their way out."""
    return sum("deletionTimestamp" not in pod["metadata"] for pod in service.pods("decode"))


def scaled(service: Service, replicas: int) -> None:
    """Scale decode, and see it done."""
    service.patch(decode={"replicas": replicas})
    service.wait_condition("Progressing", "False", "Settled", QUICK_S)
    assert staying(service) == replicas


def applied(bed: Bed, namespace: str) -> Service:
    """Apply a stub deployment and wait until it serves."""
    service = Service.apply(bed, stub(namespace))
    service.wait_settled(QUICK_S)
    return service


def test_of_two_replicas_one_leads_and_both_are_ready(pair: Bed, namespace: str) -> None:
    wait_settled_pair(pair)
    nodes = {pod["spec"]["nodeName"] for pod in pods(pair).values()}
    assert len(nodes) == 2
    began = audit.now()
    applied(pair, namespace)
    sources = {
        call.source
        for call in audit.calls(pair.audit_log, since=began)
        if call.user == audit.OPERATOR_USER and call.writes and call.resource != "leases"
    }
    assert sources == {pods(pair)[leader(pair)]["status"]["podIP"]}


def test_a_leader_that_is_killed_is_followed_within_the_lease(pair: Bed, namespace: str) -> None:
    wait_settled_pair(pair)
    service = applied(pair, namespace)
    before = holder(pair)
    pair.kill_process(NAMESPACE, before.partition("_")[0], "operator")
    service.patch(decode={"replicas": 2})
    took_s = taken_over(pair, before, TAKEN_OVER_S)
    assert took_s <= TAKEN_OVER_S
    scaled(service, 2)


def test_a_leader_that_is_stopped_hands_over_at_once(pair: Bed, namespace: str) -> None:
    wait_settled_pair(pair)
    service = applied(pair, namespace)
    before = holder(pair)
    pair.kubectl("-n", NAMESPACE, "delete", "pod", before.partition("_")[0], "--wait=false")
    # The standby looks every two seconds.
    assert taken_over(pair, before, 3 * POLL_S) < 2 * POLL_S + 1
    scaled(service, 2)


def test_a_leader_that_was_paused_past_its_lease_writes_nothing_more(
    pair: Bed, namespace: str
) -> None:
    wait_settled_pair(pair)
    service = applied(pair, namespace)
    before = holder(pair)
    name = before.partition("_")[0]
    address = pods(pair)[name]["status"]["podIP"]
    # Work that it is about to do when it is stopped.
    service.patch(decode={"replicas": 2})
    pair.pause_process(NAMESPACE, name, "operator")
    taken_over(pair, before, TAKEN_OVER_S)
    scaled(service, 3)
    resumed = audit.now()
    pair.resume_process(NAMESPACE, name, "operator")

    finished = given_up(pair, name)
    written = [
        call
        for call in audit.calls(pair.audit_log, since=resumed)
        if call.source == address and call.writes and call.time <= finished and call.status < 400
    ]
    assert written == []
    assert staying(service) == 3
    scaled(service, 1)


def test_a_leader_that_is_cut_off_from_the_api_server_gives_up_and_the_other_leads(
    pair: Bed, namespace: str
) -> None:
    wait_settled_pair(pair)
    service = applied(pair, namespace)
    before = holder(pair)
    name = before.partition("_")[0]
    pod = pods(pair)[name]
    with pair.cut_from_api(pod["spec"]["nodeName"]):
        taken_over(pair, before, TAKEN_OVER_S)
    scaled(service, 2)
    given_up(pair, name)
    wait_settled_pair(pair)

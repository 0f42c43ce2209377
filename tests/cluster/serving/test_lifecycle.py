"""The operator's own logic on a real cluster, with engines that speak only the wire."""

from __future__ import annotations

import json
import urllib.request
from datetime import datetime

import pytest
from bed.cluster import Bed
from bed.command import wait_until
from stage import audit
from stage.deployments import stub
from stage.installation import NAMESPACE, RELEASE
from stage.service import Service, blocks

pytestmark = pytest.mark.parts(3)

QUICK_S = 90


def applied(bed: Bed, namespace: str, *args: str) -> Service:
    """Apply a stub deployment and wait until it serves."""
    service = Service.apply(bed, stub(namespace, "stub", *args))
    service.wait_settled(QUICK_S)
    return service


def test_the_columns_tell_the_state(operator: Bed, namespace: str) -> None:
    applied(operator, namespace)
    header, row = operator.kubectl("-n", namespace, "get", "pdd").splitlines()
    assert header.split() == ["NAME", "READY", "MODE", "PREFILL", "DECODE", "AGE", "REASON"]
    assert row.split()[:5] == ["stub", "True", "Read", "1/1", "1/1"]


def test_a_spec_that_needs_new_engines_drains_the_old_ones_first(
    operator: Bed, namespace: str
) -> None:
    service = applied(operator, namespace)
    old = {pod["metadata"]["name"] for pod in service.pods()}
    began = audit.now()
    service.patch(connector={"mode": "Write"})
    draining = service.wait_condition("Progressing", "True", "DrainingOldRevision", QUICK_S)
    assert all(name in draining["message"] for name in old)
    service.wait_settled(QUICK_S)

    new = {pod["metadata"]["name"] for pod in service.pods()}
    assert len(new) == 2
    assert not new & old
    calls = audit.calls(operator.audit_log, since=began)
    pods = [c for c in calls if (c.namespace, c.resource) == (namespace, "pods")]
    gone = [c.time for c in pods if c.name in old and c.verb == "delete" and "node" in c.user]
    born = [c.time for c in pods if c.name in new and (c.verb, c.subresource) == ("get", "")]
    assert len(gone) >= len(old)
    assert max(gone) < min(born), "an old engine was still there when a new one came"
    held = blocks(service.pods())
    assert not set(held[0]) & set(held[1])


def test_settings_of_the_router_change_without_new_engines(operator: Bed, namespace: str) -> None:
    service = applied(operator, namespace)
    before = [pod["metadata"]["uid"] for pod in service.pods()]
    service.patch(router={"requestTimeoutSeconds": 6, "replicas": 2})
    service.wait_condition("Progressing", "True", timeout_s=QUICK_S)
    service.wait_settled(QUICK_S)
    assert [pod["metadata"]["uid"] for pod in service.pods()] == before
    assert "6" in service.router_pod()["spec"]["containers"][0]["args"]


def test_an_engine_that_keeps_ending_is_replaced_ever_slower(operator: Bed, namespace: str) -> None:
    words = "stub: no active RDMA device on this host"
    manifest = stub(namespace, "stub", "--stub-exit=3", f"--stub-last-words={words}")
    service = Service.apply(operator, manifest)

    def failures() -> dict[str, int]:
        return {role["name"]: role["failures"] for role in service.status().get("roles", [])}

    service.wait(
        "three ends of each role", lambda: min(failures().values(), default=0) >= 3, QUICK_S
    )
    message = service.condition("PrefillReady")["message"]
    assert service.condition("PrefillReady")["reason"] == "EngineEnded"
    assert f"exit code 3; its log ends: {words}" in message
    assert "the next starts" in message
    made = {
        call.name: call.time
        for call in audit.calls(operator.audit_log)
        if (call.namespace, call.resource, call.verb) == (namespace, "pods", "create")
        and call.user == audit.OPERATOR_USER
        and "prefill" in call.name
    }
    second, third = sorted(made, key=lambda name: made[name])[1:3]
    (ended,) = (
        datetime.fromisoformat(event["eventTime"])
        for event in operator.kubectl_json("-n", namespace, "get", "events.events.k8s.io")["items"]
        if event["reason"] == "EngineEnded" and event["note"].startswith(f"{second}:")
    )
    # The status keeps whole seconds, so the back-off of 10 s may be up to one shorter.
    assert (made[third] - ended).total_seconds() > 8.9

    service.patch(prefill={"args": []}, decode={"args": []})
    service.wait_settled(QUICK_S)
    assert "lastFailure" not in service.status()["roles"][0]


def test_an_engine_that_ends_with_code_0_still_tells_why(operator: Bed, namespace: str) -> None:
    # vLLM does so when its engine core dies; the kubelet keeps no log of what ended well.
    words = "EngineDeadError: EngineCore encountered an issue"
    manifest = stub(namespace, "stub", "--stub-exit=0", f"--stub-last-words={words}")
    service = Service.apply(operator, manifest)
    service.wait_condition("DecodeReady", "False", "EngineEnded", QUICK_S)

    # Its log is read beside the pass that replaces it.
    def explained() -> bool:
        message = service.condition("DecodeReady").get("message", "")
        return f"exit code 0; its log ends: {words}" in message

    service.wait("the end of its log in the condition", explained, QUICK_S)


def with_sidecar(bed: Bed, namespace: str) -> Service:
    """Serve with a sidecar in the decode engine's pod."""
    manifest = stub(namespace)
    sidecar = {
        "name": "watcher",
        "image": "localhost/moriio/base:dev",
        "command": ["sleep", "infinity"],
    }
    manifest["spec"]["decode"]["podTemplate"] = {"spec": {"containers": [sidecar]}}
    service = Service.apply(bed, manifest)
    service.wait_settled(QUICK_S)
    return service


def test_a_sidecar_does_not_hide_that_its_engine_ended(operator: Bed, namespace: str) -> None:
    service = with_sidecar(operator, namespace)
    (victim,) = service.pods("decode")
    operator.kill_process(namespace, victim["metadata"]["name"], "engine")

    def replaced() -> bool:
        names = [pod["metadata"]["name"] for pod in service.pods("decode")]
        return bool(names) and victim["metadata"]["name"] not in names

    service.wait("the engine to be replaced", replaced, QUICK_S)
    service.wait_settled(QUICK_S)


def test_a_sidecar_that_ends_does_not_end_the_service(operator: Bed, namespace: str) -> None:
    service = with_sidecar(operator, namespace)
    (victim,) = service.pods("decode")
    operator.kill_process(namespace, victim["metadata"]["name"], "watcher")
    service.wait(
        "a successor of the pod that can never be ready again",
        lambda: (
            [p["metadata"]["uid"] for p in service.pods("decode")] != [victim["metadata"]["uid"]]
            and service.condition("Ready").get("status") == "True"
        ),
        QUICK_S,
    )


@pytest.mark.alone
def test_a_restart_of_the_operator_restarts_nothing(operator: Bed, namespace: str) -> None:
    service = applied(operator, namespace)
    before = [pod["metadata"]["uid"] for pod in service.pods()]
    version = service.object()["metadata"]["resourceVersion"]
    began = audit.now()
    operator.kubectl("-n", NAMESPACE, "rollout", "restart", f"deployment/{RELEASE}")
    operator.kubectl("-n", NAMESPACE, "rollout", "status", f"deployment/{RELEASE}", "--timeout=60s")

    wait_until(
        lambda: audit.looked_at(operator.audit_log, namespace, "stub", since=began),
        timeout_s=60,
        what="the new operator to look at it",
        every_s=0.5,
    )
    assert [pod["metadata"]["uid"] for pod in service.pods()] == before
    assert service.object()["metadata"]["resourceVersion"] == version


def test_a_name_that_another_object_holds_is_waited_for(operator: Bed, namespace: str) -> None:
    operator.kubectl("-n", namespace, "create", "service", "clusterip", "stub", "--tcp=80:80")
    service = Service.apply(operator, stub(namespace))
    refused = service.wait_condition("Accepted", "False", "NameTaken", QUICK_S)
    assert refused["message"] == (
        "metadata.name: Service stub exists and does not belong to this PDDeployment: delete it, "
        "or give the PDDeployment another name"
    )
    assert service.pods() == []
    operator.kubectl("-n", namespace, "delete", "service", "stub")
    service.wait_settled(QUICK_S)


def test_a_child_that_was_edited_or_deleted_comes_back(operator: Bed, namespace: str) -> None:
    service = applied(operator, namespace)
    patch = json.dumps({"spec": {"selector": {"moriio.dev/component": "nothing"}}})
    operator.kubectl("-n", namespace, "patch", "service", "stub", "-p", patch)

    def selector() -> str:
        found = operator.kubectl_json("-n", namespace, "get", "service", "stub")
        return str(found["spec"]["selector"]["moriio.dev/component"])

    service.wait("the selector to come back", lambda: selector() == "router", QUICK_S)
    operator.kubectl("-n", namespace, "delete", "service", "stub")

    def there() -> bool:
        return bool(
            operator.kubectl("-n", namespace, "get", "service", "stub", "--ignore-not-found")
        )

    service.wait("the Service to come back", there, QUICK_S)


def test_the_registrar_survives_a_restart_of_either_side(operator: Bed, namespace: str) -> None:
    service = applied(operator, namespace)
    pod = service.router_pod()["metadata"]["name"]
    for container in ("registrar", "router"):
        operator.kill_process(namespace, pod, container)

        def ready_again(name: str = container) -> bool:
            status = operator.kubectl_json("-n", namespace, "get", "pod", pod)["status"]
            containers = [*status["initContainerStatuses"], *status["containerStatuses"]]
            restarts = {c["name"]: c["restartCount"] for c in containers}
            return restarts[name] == 1 and all(c["ready"] for c in containers)

        service.wait(f"the {container} to be ready again", ready_again, QUICK_S)
        service.wait_condition("Ready", timeout_s=QUICK_S)
        address = service.router_pod()["status"]["podIP"]
        with urllib.request.urlopen(f"http://{address}:8000/health", timeout=5) as response:
            assert response.status == 200


def test_router_containers_hold_no_token_but_the_registrar_does(
    operator: Bed, namespace: str
) -> None:
    service = applied(operator, namespace)
    where = ("-n", namespace, "exec", service.router_pod()["metadata"]["name"], "-c")
    look = ("--", "sh", "-c", "ls /var/run/secrets/kubernetes.io/serviceaccount; id -u")
    registrar = operator.kubectl(*where, "registrar", *look)
    assert registrar.split() == ["ca.crt", "token", "65532"]
    router = operator.kubectl(*where, "router", *look, check=False)
    assert router.split() == ["65532"]
    engine = service.pods("decode")[0]["metadata"]["name"]
    files = ("ls", "/var/run/secrets/kubernetes.io")
    assert not operator.kubectl(
        "-n", namespace, "exec", engine, "-c", "engine", "--", *files, check=False
    )


def test_a_stranger_may_not_use_the_registrars_account(operator: Bed, namespace: str) -> None:
    applied(operator, namespace)
    account = f"--as=system:serviceaccount:{namespace}:stub-router"

    def may(verb: str, resource: str, where: str = namespace) -> bool:
        answer = operator.kubectl(
            "auth", "can-i", verb, resource, "-n", where, account, check=False
        )
        return answer.strip() == "yes"

    assert may("list", "endpointslices.discovery.k8s.io")
    assert may("watch", "endpointslices.discovery.k8s.io")
    assert not may("list", "endpointslices.discovery.k8s.io", "default")
    for verb in ("get", "create", "patch"):
        assert may(verb, "pdreports.moriio.dev"), verb
        assert not may(verb, "pdreports.moriio.dev", "default"), verb
    for verb in ("list", "update", "delete"):
        assert not may(verb, "pdreports.moriio.dev"), verb
    for resource in ("pods", "secrets", "configmaps", "services", "pddeployments.moriio.dev"):
        assert not may("get", resource), resource


def test_a_report_ends_with_its_router_pod(operator: Bed, namespace: str) -> None:
    service = applied(operator, namespace)
    uids = sorted(pod["metadata"]["uid"] for pod in service.pods())

    def reported() -> bool:
        return [
            [engine["podUID"] for engine in report["engines"]] for report in service.reports()
        ] == [uids]

    service.wait("a report on all engines", reported, QUICK_S)
    (before,) = service.reports()
    assert {engine["version"] for engine in before["engines"]} == {"stub"}
    pod = before["metadata"]["name"]
    operator.kubectl("-n", namespace, "delete", "pod", pod, "--wait=false")

    def succeeded() -> bool:
        return reported() and service.reports()[0]["metadata"]["name"] != pod

    service.wait("the report of the next router pod alone", succeeded, QUICK_S)


def test_a_deleted_engine_pod_gets_a_successor(operator: Bed, namespace: str) -> None:
    service = applied(operator, namespace)
    (decode,) = service.pods("decode")
    operator.kubectl("-n", namespace, "delete", "pod", decode["metadata"]["name"], "--wait=false")

    def replaced() -> bool:
        names = {pod["metadata"]["name"] for pod in service.pods("decode")}
        return bool(names - {decode["metadata"]["name"]})

    service.wait("a successor of a deleted pod", replaced, QUICK_S)
    service.wait_settled(QUICK_S)

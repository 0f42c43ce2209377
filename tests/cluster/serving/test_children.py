"""What is done to a child by others is undone, whatever its kind; so every right has its use."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from bed.cluster import Bed
from bed.errors import BedError
from stage.deployments import stub
from stage.service import Service

QUICK_S = 60

# Of each kind of child: its name without the revision, and an edit that anybody might make.
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "service": ("stub", {"spec": {"selector": {"moriio.dev/component": "nothing"}}}),
    "serviceaccount": ("stub-router", {"automountServiceAccountToken": True}),
    "rolebinding": ("stub-router", {"subjects": []}),
    "deployment": ("stub-router-{revision}", {"spec": {"replicas": 3}}),
    "controllerrevision": ("stub-{revision}", {}),
}
EACH = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def service(operator: Bed, new_namespace: Callable[[], str]) -> Service:
    """One stub deployment, to which everything is done."""
    name = new_namespace()
    made = Service.apply(operator, stub(name))
    made.wait_settled(90)
    return made


@pytest.fixture
def namespace(service: Service) -> str:
    """The namespace that a failing test reports on."""
    return service.namespace


def name_of(service: Service, kind: str) -> str:
    """The name of the one child of a kind that the tests are about."""
    return KINDS[kind][0].format(revision=service.status()["revision"])


def live(service: Service, kind: str) -> dict[str, Any]:
    """Read a child; empty if it is not there."""
    get = ("-n", service.namespace, "get", kind, name_of(service, kind), "--ignore-not-found")
    text = service.bed.kubectl(*get, "-o", "json")
    found: dict[str, Any] = json.loads(text) if text else {}
    return found


def meaning(obj: dict[str, Any]) -> dict[str, Any]:
    """What a child says, without what the API server counts and others observe."""
    said = {key: value for key, value in obj.items() if key != "status"}
    metadata = obj.get("metadata", {})
    return {**said, "metadata": {k: metadata.get(k) for k in ("name", "labels", "ownerReferences")}}


def comes_back(service: Service, kind: str, before: dict[str, Any]) -> dict[str, Any]:
    """Wait until a child says again what it said before, and give it."""

    def back() -> bool:
        return meaning(live(service, kind)) == meaning(before)

    service.wait(f"the {kind} to be as it was", back, QUICK_S)
    return live(service, kind)


@pytest.mark.parametrize("kind", [kind for kind, (_, edit) in KINDS.items() if edit])
@pytest.mark.usefixtures("namespace")
def test_an_edit_is_undone(service: Service, kind: str) -> None:
    before = live(service, kind)
    patch = json.dumps(KINDS[kind][1])
    name = name_of(service, kind)
    service.bed.kubectl("-n", service.namespace, "patch", kind, name, "--type=merge", "-p", patch)
    after = comes_back(service, kind, before)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


@pytest.mark.usefixtures("namespace")
def test_nobody_can_edit_what_was_rendered(service: Service) -> None:
    patch = json.dumps({"data": {"templates": {"decode": None}}})
    name = name_of(service, "controllerrevision")
    with pytest.raises(BedError, match="is immutable"):
        service.bed.kubectl(
            *("-n", service.namespace, "patch", "controllerrevision", name),
            *("--type=merge", "-p", patch),
        )


@EACH
@pytest.mark.usefixtures("namespace")
def test_labels_that_were_taken_away_come_back(service: Service, kind: str) -> None:
    before = live(service, kind)
    labels = [f"{label}-" for label in before["metadata"]["labels"]]
    name = name_of(service, kind)
    service.bed.kubectl("-n", service.namespace, "label", kind, name, *labels)
    after = comes_back(service, kind, before)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


@EACH
@pytest.mark.usefixtures("namespace")
def test_a_child_that_was_deleted_comes_back(service: Service, kind: str) -> None:
    before = live(service, kind)
    name = name_of(service, kind)
    service.bed.kubectl("-n", service.namespace, "delete", kind, name, "--wait=false")

    def another() -> bool:
        found = live(service, kind)
        return bool(found) and found["metadata"]["uid"] != before["metadata"]["uid"]

    service.wait(f"another {kind}", another, QUICK_S)
    service.wait_settled(QUICK_S)


@EACH
@pytest.mark.usefixtures("namespace")
def test_a_child_that_nobody_wished_for_goes(service: Service, kind: str) -> None:
    extra = live(service, kind)
    extra["metadata"] = {
        key: extra["metadata"][key] for key in ("namespace", "labels", "ownerReferences")
    } | {"name": "superfluous"}
    extra.pop("status", None)
    if kind == "service":
        for field in ("clusterIP", "clusterIPs"):
            extra["spec"].pop(field, None)
    service.bed.kubectl("create", "-f", "-", input=json.dumps(extra))
    get = ("-n", service.namespace, "get", kind, "superfluous", "--ignore-not-found")
    service.wait(f"the extra {kind} to go", lambda: not service.bed.kubectl(*get), QUICK_S)


@pytest.mark.usefixtures("namespace")
def test_what_a_user_takes_back_is_gone(service: Service) -> None:
    def limits() -> dict[str, str]:
        deployment = live(service, "deployment")
        (router,) = deployment["spec"]["template"]["spec"]["containers"]
        found: dict[str, str] = router.get("resources", {}).get("limits", {})
        return found

    service.patch(router={"resources": {"limits": {"memory": "1Gi"}}})
    service.wait("the limit to come", lambda: limits() == {"memory": "1Gi"}, QUICK_S)
    service.patch(router={"resources": None})
    service.wait("the limit to go", lambda: limits() == {}, QUICK_S)

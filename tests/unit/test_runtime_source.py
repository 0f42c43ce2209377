"""kopf as the source of events: what is watched, whose key becomes due, how we log in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import kopf
import pytest
from moriio_operator.api import names
from moriio_operator.api.kinds import PDDEPLOYMENT, WATCHED
from moriio_operator.control.child_cache import ChildCache
from moriio_operator.control.queue import Key
from moriio_operator.kube import kinds
from moriio_operator.runtime import source

from unit.samples import Json, children_of, laid_over, owner, pod

Handler = Callable[..., Awaitable[None]]


@pytest.fixture
def enqueued() -> list[Key]:
    """Keys that events made due."""
    return []


@pytest.fixture
def cache() -> ChildCache:
    """What the operator knows of children."""
    return ChildCache()


@pytest.fixture
def handlers(
    monkeypatch: pytest.MonkeyPatch, enqueued: list[Key], cache: ChildCache
) -> dict[str, Handler]:
    """The handlers that are registered with kopf, by kind."""
    found: dict[str, Handler] = {}

    def event(_group: str, _version: str, plural: str, **_: Any) -> Callable[[Handler], None]:
        return lambda handler: found.update({plural: handler})

    monkeypatch.setattr(kopf.on, "event", event)
    source._registry(enqueued.append, cache.invalidate)
    return found


def test_our_kinds_and_every_owned_kind_are_watched(handlers: dict[str, Handler]) -> None:
    assert handlers.keys() == {PDDEPLOYMENT.plural, *(kind.plural for kind in WATCHED)}


async def test_an_event_of_a_deployment_makes_its_key_due(
    handlers: dict[str, Handler], enqueued: list[Key]
) -> None:
    await told(handlers, "DELETED", generation=1)
    assert enqueued == [Key("team", "llm")]


async def told(handlers: dict[str, Handler], kind: str | None, **meta: Any) -> None:
    """Tell of an event of the deployment, as kopf does; None is a listed object."""
    where = {"uid": "u-1", "name": "llm", "namespace": "team"}
    await handlers["pddeployments"](type=kind, meta=meta, **where)


async def test_the_echo_of_a_status_write_makes_nothing_due(
    handlers: dict[str, Handler], enqueued: list[Key]
) -> None:
    await told(handlers, "ADDED", generation=1, resourceVersion="1")
    await told(handlers, "MODIFIED", generation=1, resourceVersion="2")
    assert len(enqueued) == 1


@pytest.mark.parametrize(
    ("kind", "meta"),
    [
        ("MODIFIED", {"generation": 2}),
        ("MODIFIED", {"generation": 1, "deletionTimestamp": "now"}),
        (None, {"generation": 1}),
    ],
)
async def test_a_change_a_deletion_and_a_new_list_make_it_due(
    kind: str | None, meta: dict[str, Any], handlers: dict[str, Handler], enqueued: list[Key]
) -> None:
    await told(handlers, "ADDED", generation=1)
    await told(handlers, kind, **meta)
    assert len(enqueued) == 2


async def test_a_deletion_is_told_though_nothing_else_of_it_changed(
    handlers: dict[str, Handler], enqueued: list[Key]
) -> None:
    # Without finalizers an object has no deletionTimestamp when it is gone.
    await told(handlers, "ADDED", generation=1)
    await told(handlers, "DELETED", generation=1)
    assert len(enqueued) == 2
    await told(handlers, "MODIFIED", generation=1)
    assert len(enqueued) == 3


async def test_an_event_of_a_child_makes_its_owners_key_due(
    handlers: dict[str, Handler], enqueued: list[Key]
) -> None:
    await heard(handlers, "pods", pod())
    assert enqueued == [Key("team", "llm")]


async def test_a_child_whose_label_was_edited_concerns_its_controller_too(
    handlers: dict[str, Handler], enqueued: list[Key]
) -> None:
    edited = laid_over(pod(), {"metadata": {"labels": {names.LABEL_DEPLOYMENT: "other"}}})
    await heard(handlers, "pods", edited)
    assert sorted(enqueued) == [Key("team", "llm"), Key("team", "other")]


async def test_the_echo_of_our_own_write_of_a_child_makes_nothing_due(
    handlers: dict[str, Handler], enqueued: list[Key], cache: ChildCache
) -> None:
    (service, *_) = children_of(owner())
    made = laid_over(service, {"metadata": {"uid": "u-2", "resourceVersion": "7"}})
    cache.store(Key("team", "llm"), kinds.SERVICE, [made])
    await heard(handlers, "services", made)
    assert enqueued == []
    await heard(handlers, "services", laid_over(made, {"metadata": {"resourceVersion": "8"}}))
    assert enqueued == [Key("team", "llm")]


async def heard(handlers: dict[str, Handler], plural: str, obj: Json) -> None:
    """Tell of an event of a child, as kopf does."""
    meta = {"uid": "u-1", "resourceVersion": "1", **obj["metadata"]}
    await handlers[plural](
        type="MODIFIED",
        labels=meta["labels"],
        meta=meta,
        name=meta["name"],
        uid=meta["uid"],
        namespace=meta["namespace"],
    )


async def test_a_report_concerns_the_deployment_that_its_label_names(
    handlers: dict[str, Handler], enqueued: list[Key]
) -> None:
    pod_of_router = {"kind": "Pod", "name": "llm-router-x", "uid": "u", "controller": True}
    metadata = {
        "name": "llm-router-x",
        "namespace": "team",
        "labels": names.base_labels("llm"),
        "ownerReferences": [pod_of_router],
    }
    await heard(handlers, "pdreports", {"metadata": metadata})
    assert enqueued == [Key("team", "llm")]


@pytest.mark.parametrize("labels", [{}, {names.LABEL_DEPLOYMENT: ""}, {"app": "llm"}])
async def test_an_event_of_a_stranger_makes_nothing_due(
    labels: dict[str, str], handlers: dict[str, Handler], enqueued: list[Key]
) -> None:
    strange = {"name": "x", "namespace": "team", "labels": labels, "ownerReferences": []}
    await heard(handlers, "pods", {"metadata": strange})
    assert enqueued == []


def test_of_owned_kinds_only_ours_are_watched() -> None:
    selectors = source._settings().watching.label_selectors
    for kind in WATCHED:
        selector = str(selectors[kind.group, kind.version, kind.plural])
        assert selector.startswith("app.kubernetes.io/managed-by=moriio-operator")
        assert pod()["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "moriio-operator"


def test_kopf_neither_peers_nor_scans_nor_posts() -> None:
    settings = source._settings()
    assert settings.peering.standalone
    assert settings.scanning.disabled
    assert not settings.posting.enabled


def test_kopf_keeps_nothing_on_users_objects() -> None:
    settings = source._settings()
    patch, body = kopf.Patch(), kopf.Body({"metadata": {}, "spec": {"x": 1}})
    diffs = settings.persistence.diffbase_storage
    diffs.store(body=body, patch=patch, essence=diffs.build(body=body))
    # Its handler keys have a type that kopf keeps to itself.
    progress: Any = settings.persistence.progress_storage
    progress.touch(body=body, patch=patch, value="now")
    progress.purge(body=body, patch=patch, key="x")
    assert dict(patch) == {}
    assert diffs.fetch(body=body) is None
    assert progress.fetch(body=body, key="x") is None


@pytest.mark.parametrize(
    ("host", "server"),
    [("198.18.0.1", "https://198.18.0.1:443"), ("fd00::1", "https://[fd00::1]:443")],
)
def test_in_a_pod_the_api_server_is_called_by_its_address(
    host: str, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_name = kopf.ConnectionInfo(server="https://kubernetes.default.svc", token="t")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(kopf, "login_with_service_account", lambda **_: by_name)
    info = source._login()
    assert info is not None
    assert (info.server, info.token) == (server, "t")


def test_without_any_credentials_there_is_no_login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr(kopf, "login_with_service_account", lambda **_: None)
    assert source._login() is None


def test_outside_of_a_cluster_a_kubeconfig_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    outside = kopf.ConnectionInfo(server="https://127.0.0.1:6443")
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    monkeypatch.setattr(kopf, "login_with_kubeconfig", lambda **_: outside)
    assert source._login() == outside

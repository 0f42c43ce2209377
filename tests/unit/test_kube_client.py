"""The client against a server on loopback: what goes out, and what each answer becomes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.aio.config import ConfigException
from moriio_operator.api.kinds import PDDEPLOYMENT
from moriio_operator.kube import client, kinds, wire
from moriio_operator.kube.client import Kube
from moriio_operator.kube.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ExpiredError,
    ForbiddenError,
    InvalidError,
    UnreachableError,
)

from unit.samples import Json
from unit.scripted_api import Answer, ScriptedApi, Stream, error, line, page, serving

POD: Json = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "team"},
    "spec": {},
}


def bare(name: str) -> Json:
    """An object of a list, which comes without its kind."""
    return {"metadata": {"name": name, "resourceVersion": "1"}}


async def test_an_object_is_read() -> None:
    api = ScriptedApi()
    api.add(Answer(POD))
    async with serving(api) as kube:
        assert await kube.get(kinds.POD, "team", "p") == POD
    (call,) = api.calls
    assert (call.method, call.path) == ("GET", "/api/v1/namespaces/team/pods/p")


async def test_an_object_that_is_not_there_is_none() -> None:
    api = ScriptedApi()
    api.add(error(404, "NotFound"))
    async with serving(api) as kube:
        assert await kube.get(kinds.POD, "team", "p") is None


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (error(400, "BadRequest"), InvalidError),
        (error(403, "Forbidden"), ForbiddenError),
        (error(409, "Conflict"), ConflictError),
        (error(409, "AlreadyExists"), AlreadyExistsError),
        (error(410, "Expired"), ExpiredError),
        (error(422, "Invalid"), InvalidError),
        (error(429, "TooManyRequests"), ApiError),
        (error(500, "InternalError"), ApiError),
    ],
)
async def test_an_error_is_raised_with_the_servers_words(
    answer: Answer, kind: type[ApiError]
) -> None:
    api = ScriptedApi()
    api.add(answer)
    async with serving(api) as kube:
        with pytest.raises(kind, match="no") as caught:
            await kube.create(POD, "me")
    assert type(caught.value) is kind
    assert caught.value.status == answer.status


async def test_an_answer_that_is_no_json_is_told_as_it_is() -> None:
    api = ScriptedApi()
    api.add(Answer("<html>bad gateway</html>", 502))
    async with serving(api) as kube:
        with pytest.raises(ApiError, match="502 NotJson: <html>bad gateway"):
            await kube.get(kinds.POD, "team", "p")


async def test_an_error_is_not_tried_again_behind_our_back() -> None:
    api = ScriptedApi()
    api.add(error(500, "InternalError"), Answer(POD))
    async with serving(api) as kube:
        with pytest.raises(ApiError):
            await kube.get(kinds.POD, "team", "p")
    assert len(api.calls) == 1


async def test_a_list_is_read_page_by_page_and_its_items_get_their_kind() -> None:
    api = ScriptedApi()
    api.add(page([bare("a")], "7", more="token"), page([bare("b")], "7"))
    async with serving(api) as kube:
        items, version = await kube.list(kinds.DEPLOYMENT, "team", "x=y,z")
    assert [item["metadata"]["name"] for item in items] == ["a", "b"]
    assert {(item["apiVersion"], item["kind"]) for item in items} == {("apps/v1", "Deployment")}
    assert version == "7"
    first, second = (call.query for call in api.calls)
    assert first == {"limit": "500", "labelSelector": "x=y,z"}
    assert second == {**first, "continue": "token"}


async def test_a_list_without_a_namespace_spans_all() -> None:
    api = ScriptedApi()
    api.add(page([]))
    async with serving(api) as kube:
        assert await kube.list(PDDEPLOYMENT) == ([], "10")
    assert api.calls[0].path == "/apis/moriio.dev/v1alpha1/pddeployments"


@pytest.mark.parametrize("dry_run", [False, True])
async def test_a_create_is_strict_and_may_be_rehearsed(*, dry_run: bool) -> None:
    api = ScriptedApi()
    api.add(Answer(POD, 201))
    async with serving(api) as kube:
        assert await kube.create(POD, "me", dry_run=dry_run) == POD
    (call,) = api.calls
    assert (call.method, call.path, call.body) == ("POST", "/api/v1/namespaces/team/pods", POD)
    rehearsal = {"dryRun": "All"} if dry_run else {}
    assert call.query == {"fieldManager": "me", "fieldValidation": "Strict", **rehearsal}


async def test_an_apply_is_server_side_strict_and_takes_fields_over() -> None:
    api = ScriptedApi()
    api.add(Answer(POD))
    async with serving(api) as kube:
        await kube.apply(POD, "me")
    (call,) = api.calls
    assert (call.method, call.path, call.body) == ("PATCH", "/api/v1/namespaces/team/pods/p", POD)
    assert call.headers["Content-Type"] == "application/apply-patch+yaml"
    assert call.query == {"fieldManager": "me", "fieldValidation": "Strict", "force": "true"}


async def test_a_status_is_applied_to_its_own_path() -> None:
    api = ScriptedApi()
    api.add(error(409, "Conflict", "the object has been modified"))
    async with serving(api) as kube:
        with pytest.raises(ConflictError, match="has been modified"):
            await kube.apply(POD, "me", "status")
    assert api.calls[0].path == "/api/v1/namespaces/team/pods/p/status"


async def test_a_delete_means_this_very_object() -> None:
    api = ScriptedApi()
    api.add(Answer({}), error(404, "NotFound"), error(409, "Conflict"))
    async with serving(api) as kube:
        await kube.delete(kinds.POD, "team", "p", "u")
        await kube.delete(kinds.POD, "team", "p", "u")
        with pytest.raises(ConflictError):
            await kube.delete(kinds.POD, "team", "p", "u")
    assert {call.method for call in api.calls} == {"DELETE"}
    assert api.calls[0].body == {
        "preconditions": {"uid": "u"},
        "propagationPolicy": "Background",
    }


@pytest.mark.parametrize(
    ("answer", "served"),
    [
        (error(404, "NotFound"), False),
        (Answer({"resources": []}), False),
        (Answer({"resources": [{"name": "others"}, {"name": "pddeployments/status"}]}), False),
        (
            Answer({"resources": [{"name": "pddeployments/status"}, {"name": "pddeployments"}]}),
            True,
        ),
    ],
)
async def test_whether_a_kind_is_served(answer: Answer, *, served: bool) -> None:
    api = ScriptedApi()
    api.add(answer)
    async with serving(api) as kube:
        assert await kube.serves(PDDEPLOYMENT) is served
    assert api.calls[0].path == "/apis/moriio.dev/v1alpha1"


async def watched(*answers: Answer | Stream) -> tuple[list[Any], ScriptedApi]:
    api = ScriptedApi()
    api.add(*answers)
    async with serving(api) as kube:
        events = [e async for e in kube.watch(kinds.POD, "team", "a=b", "5")]
    return events, api


async def test_a_watch_yields_events_until_the_server_ends_it() -> None:
    pieces = [line("ADDED", bare("a")), line("BOOKMARK", bare("")), line("DELETED", bare("a"))]
    events, api = await watched(Stream(pieces, "ends"))
    assert [kind for kind, _ in events] == ["ADDED", "BOOKMARK", "DELETED"]
    query = api.calls[0].query
    assert (query["watch"], query["allowWatchBookmarks"]) == ("true", "true")
    assert (query["resourceVersion"], query["labelSelector"]) == ("5", "a=b")
    assert int(query["timeoutSeconds"]) == client.WATCH_S


async def test_events_come_whole_however_the_network_cut_them() -> None:
    whole = line("ADDED", bare("a")) + line("MODIFIED", bare("b"))
    events, _ = await watched(Stream([whole[:9], whole[9:60], whole[60:]], "ends"))
    assert [obj["metadata"]["name"] for _, obj in events] == ["a", "b"]


async def test_an_event_may_be_longer_than_any_buffer() -> None:
    big = {**bare("big"), "data": "x" * 5_000_000}
    events, _ = await watched(Stream([line("ADDED", big)], "ends"))
    assert events == [("ADDED", big)]


async def test_an_event_that_was_cut_off_is_not_taken_for_one() -> None:
    whole = line("ADDED", bare("a"))
    events, _ = await watched(Stream([whole, whole[:20]], "ends"))
    assert len(events) == 1


async def test_a_stream_that_breaks_is_an_error() -> None:
    with pytest.raises(UnreachableError, match=r"(?i)payload|closed|reset"):
        await watched(Stream([line("ADDED", bare("a"))], "breaks"))


@pytest.mark.parametrize(
    "garbage",
    [b"no json\n", b"[]\n", b"1\n", b'{"type": "ADDED"}\n', b'{"type": "ADDED", "object": {}}\n',
     b'{"type": "ERROR", "object": {"code": "x"}}\n'],
)  # fmt: skip
async def test_what_is_no_event_is_taken_for_a_broken_connection(garbage: bytes) -> None:
    with pytest.raises(UnreachableError):
        await watched(Stream([garbage]))


async def test_a_watch_may_span_all_namespaces_and_select_by_fields() -> None:
    api = ScriptedApi()
    api.add(Stream([], "ends"))
    async with serving(api) as kube:
        assert [e async for e in kube.watch(kinds.POD, None, "", "5", "spec.nodeName=n")] == []
    (call,) = api.calls
    assert (call.path, call.query["fieldSelector"]) == ("/api/v1/pods", "spec.nodeName=n")
    assert "labelSelector" not in call.query


@pytest.mark.parametrize("body", ["<html>", {}, {"items": []}])
async def test_a_list_that_is_none_is_no_answer(body: Any) -> None:
    api = ScriptedApi()
    api.add(Answer(body))
    async with serving(api) as kube:
        with pytest.raises(UnreachableError):
            await kube.list(kinds.POD, "team")


@pytest.mark.parametrize("failure", [OSError("no token"), ConfigException("the token is empty")])
async def test_a_token_that_cannot_be_read_is_no_answer(failure: Exception) -> None:
    async def fail(*_: Any) -> None:
        raise failure

    async with serving(ScriptedApi()) as kube:
        kube._api.update_params_for_auth = fail
        with pytest.raises(UnreachableError, match="token"):
            await kube.get(kinds.POD, "team", "p")


EXPIRED: Json = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}


@pytest.mark.parametrize(
    "answer",
    [error(410, "Expired", "too old"), Stream([line("ERROR", EXPIRED)])],
    ids=["at once", "within"],
)
async def test_a_version_that_is_too_old_asks_for_a_new_list(answer: Answer | Stream) -> None:
    with pytest.raises(ExpiredError, match="too old"):
        await watched(answer)


async def test_another_error_within_a_watch_is_raised_as_what_it_is() -> None:
    gone: Json = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no more"}
    with pytest.raises(ForbiddenError, match="no more"):
        await watched(Stream([line("ERROR", gone)]))


async def test_a_silent_watch_is_taken_for_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "_SILENCE_S", 0.05)
    watching = asyncio.create_task(watched(Stream([line("ADDED", bare("a"))])))
    done, _ = await asyncio.wait([watching], timeout=5)
    assert done
    with pytest.raises(UnreachableError):
        watching.result()


async def test_every_call_is_observed_with_verb_kind_and_status() -> None:
    api, seen = ScriptedApi(), list[tuple[str, str, int]]()
    api.add(Answer(POD), error(403, "Forbidden"), page([]), Stream([], "ends"))
    async with serving(
        api, lambda verb, kind, status, _: seen.append((verb, kind, status))
    ) as kube:
        await kube.get(kinds.POD, "team", "p")
        with pytest.raises(ForbiddenError):
            await kube.create(POD, "me")
        await kube.list(kinds.SERVICE, "team")
        _ = [e async for e in kube.watch(kinds.POD, "team", "", "1")]
    assert seen == [
        ("get", "Pod", 200),
        ("create", "Pod", 403),
        ("list", "Service", 200),
        ("watch", "Pod", 200),
    ]


async def test_a_call_that_gets_no_answer_is_observed_as_such(unused_tcp_port: int) -> None:
    seen: list[int] = []
    api = ScriptedApi()
    async with serving(api, lambda _v, _k, status, _s: seen.append(status)) as kube:
        kube._api.configuration.host = f"http://127.0.0.1:{unused_tcp_port}"
        with pytest.raises(UnreachableError, match=r"(?i)connect"):
            await kube.get(kinds.POD, "team", "p")
    assert seen == [0]


async def test_a_kubeconfig_gives_address_and_token(tmp_path: Path) -> None:
    api = ScriptedApi()
    api.add(Answer(POD))
    async with serving(api) as other:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": other._api.configuration.host}}],
            "users": [{"name": "u", "user": {"token": "secret"}}],
        }
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(config))
        kube = await Kube.connect(str(path))
        try:
            assert await kube.get(kinds.POD, "team", "p") == POD
        finally:
            await kube.close()
    assert api.calls[0].headers["Authorization"] == "Bearer secret"


async def test_an_update_carries_its_precondition_and_replaces_the_object() -> None:
    api = ScriptedApi()
    lease: Json = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "l", "namespace": "sys", "resourceVersion": "7"},
        "spec": {"holderIdentity": "me"},
    }
    api.add(Answer(lease), error(409, "Conflict"))
    async with serving(api) as kube:
        assert await kube.update(lease) == lease
        with pytest.raises(ConflictError):
            await kube.update(lease)
    call = api.calls[0]
    assert (call.method, call.body) == ("PUT", lease)
    assert call.path == "/apis/coordination.k8s.io/v1/namespaces/sys/leases/l"


async def test_whoever_may_not_write_any_more_still_reads_and_rehearses() -> None:
    def check() -> None:
        raise RuntimeError("no longer the leader")

    api = ScriptedApi()
    api.add(Answer(POD), Answer(POD))
    async with serving(api, check=check) as kube:
        assert await kube.get(kinds.POD, "team", "p") == POD
        assert await kube.create(POD, "me", dry_run=True) == POD
        with pytest.raises(RuntimeError, match="no longer the leader"):
            await kube.create(POD, "me")
        with pytest.raises(RuntimeError, match="no longer the leader"):
            await kube.apply(POD, "me")
        with pytest.raises(RuntimeError, match="no longer the leader"):
            await kube.delete(kinds.POD, "team", "p", "u")
    assert len(api.calls) == 2


async def test_a_controller_revision_is_sent_as_yaml_so_that_its_labels_can_be_edited() -> None:
    api = ScriptedApi()
    kept: Json = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {"name": "r", "namespace": "team"},
        "revision": 1,
        "data": {"b": 1, "a": 2},
    }
    api.add(Answer(kept))
    async with serving(api) as kube:
        assert await kube.create(kept, "me") == kept
    (call,) = api.calls
    assert call.headers["Content-Type"] == "application/yaml"
    assert call.body == kept

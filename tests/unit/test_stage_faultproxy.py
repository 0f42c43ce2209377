"""The fault proxy before a server on loopback: what goes through, what is recorded, what breaks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from moriio_operator.kube import kinds
from moriio_operator.kube.client import Kube
from moriio_operator.kube.errors import ApiError, ExpiredError, UnreachableError
from stage import apicall
from stage.apicall import BROKEN, EXPIRED, Call, Refusal
from stage.faultproxy import CutError, FaultProxy

from unit.samples import Json
from unit.scripted_api import Answer, ScriptedApi, Stream, line, page
from unit.waiting import until

POD: Json = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "team"},
    "spec": {},
}


@asynccontextmanager
async def proxied(api: ScriptedApi, folder: Path) -> AsyncIterator[tuple[FaultProxy, Kube]]:
    """A client of ours that reaches the server through the proxy alone."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", api.handle)
    server = TestServer(app)
    await server.start_server(shutdown_timeout=0)
    to_server = folder / "server.kubeconfig"
    to_server.write_text(kubeconfig(str(server.make_url("")).rstrip("/")))
    try:
        async with FaultProxy.running(to_server) as proxy:
            kube = await Kube.connect(str(proxy.write_kubeconfig(folder / "proxy.kubeconfig")))
            try:
                yield proxy, kube
            finally:
                await kube.close()
    finally:
        await server.close()


def kubeconfig(server: str) -> str:
    """A kubeconfig of a user who is known by a token."""
    return json.dumps(
        {
            "current-context": "c",
            "clusters": [{"name": "k", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": {"token": "secret"}}],
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        }
    )


class Watching:
    """A watch of pods, and what it told so far."""

    def __init__(self, kube: Kube) -> None:
        self.events: list[tuple[str, str]] = []
        self.task = asyncio.create_task(self._run(kube))

    async def _run(self, kube: Kube) -> None:
        async for kind, obj in kube.watch(kinds.POD, "team", "", "1"):
            self.events.append((kind, obj["metadata"]["name"]))


def event(kind: str, name: str) -> bytes:
    return line(kind, {"metadata": {"name": name, "resourceVersion": "1"}})


@pytest.mark.parametrize(
    ("method", "path", "query", "body", "expected"),
    [
        ("GET", "/api/v1/namespaces/n/pods/p", {}, None, Call("get", "pods", "", "n", "p")),
        ("GET", "/api/v1/namespaces/n/pods/p/log", {}, None, Call("get", "pods", "log", "n", "p")),
        ("GET", "/api/v1/namespaces/n/pods", {}, None, Call("list", "pods", "", "n")),
        (
            "GET",
            "/apis/apps/v1/namespaces/n/deployments",
            {"watch": "true"},
            None,
            Call("watch", "deployments", "", "n"),
        ),
        ("GET", "/apis/apps/v1/deployments", {}, None, Call("list", "deployments")),
        ("GET", "/api/v1/namespaces/n", {}, None, Call("get", "namespaces", "", "", "n")),
        ("GET", "/apis/apps/v1", {}, None, Call("get")),
        ("GET", "/apis", {}, None, Call("get")),
        ("POST", "/api/v1/namespaces/n/pods", {}, POD, Call("create", "pods", "", "n", "p")),
        (
            "POST",
            "/api/v1/namespaces/n/pods",
            {"dryRun": "All"},
            POD,
            Call("create", "pods", "", "n", "p", dry_run=True),
        ),
        (
            "PATCH",
            "/apis/moriio.dev/v1alpha1/namespaces/n/pddeployments/d/status",
            {},
            {},
            Call("patch", "pddeployments", "status", "n", "d"),
        ),
        ("PUT", "/api/v1/namespaces/n/pods/p", {}, POD, Call("update", "pods", "", "n", "p")),
        ("DELETE", "/api/v1/namespaces/n/pods/p", {}, {}, Call("delete", "pods", "", "n", "p")),
        ("DELETE", "/api/v1/namespaces/n/pods", {}, {}, Call("deletecollection", "pods", "", "n")),
    ],
)
def test_a_request_is_read_as_the_api_server_reads_it(
    method: str, path: str, query: dict[str, str], body: Json | None, expected: Call
) -> None:
    data = b"" if body is None else json.dumps(body).encode()
    assert apicall.read(method, path, query, data) == expected


def test_a_dry_run_and_a_look_write_nothing() -> None:
    assert Call("delete", "pods").writes
    assert not Call("create", "pods", dry_run=True).writes
    assert not Call("watch", "pods").writes


async def test_what_is_asked_goes_through_with_the_proxys_credentials(tmp_path: Path) -> None:
    api = ScriptedApi()
    api.add(Answer(POD, 201))
    async with proxied(api, tmp_path) as (proxy, kube):
        assert await kube.create(POD, "me") == POD
    (call,) = api.calls
    assert (call.path, call.body) == ("/api/v1/namespaces/team/pods", POD)
    assert call.query == {"fieldManager": "me", "fieldValidation": "Strict"}
    assert call.headers["Authorization"] == "Bearer secret"
    (exchange,) = proxy.writes
    assert (exchange.call, exchange.status) == (Call("create", "pods", "", "team", "p"), 201)
    assert (exchange.call.body, exchange.answer) == (POD, POD)


async def test_an_encoded_query_arrives_as_it_was_sent(tmp_path: Path) -> None:
    api = ScriptedApi()
    api.add(page([]))
    async with proxied(api, tmp_path) as (_, kube):
        await kube.list(kinds.POD, "team", "a=b,c!=d e")
    assert api.calls[0].query["labelSelector"] == "a=b,c!=d e"


async def test_leader_election_is_recorded_but_is_no_write_of_a_pass(tmp_path: Path) -> None:
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": POD["metadata"]}
    api = ScriptedApi()
    api.add(Answer(lease, 201))
    async with proxied(api, tmp_path) as (proxy, kube):
        await kube.create(lease, "me")
        assert [call.resource for call in proxy.calls] == ["leases"]
        assert proxy.writes == []


async def test_it_is_idle_from_the_end_of_the_last_request_on(tmp_path: Path) -> None:
    api = ScriptedApi()
    async with proxied(api, tmp_path) as (proxy, kube):
        asking = asyncio.create_task(kube.get(kinds.POD, "team", "p"))
        await until(lambda: proxy.calls)
        assert proxy.idle_s == 0
        api.add(Answer(POD))
        await asking
        await until(lambda: proxy.idle_s > 0.02)


async def test_a_hook_answers_in_the_servers_place(tmp_path: Path) -> None:
    api = ScriptedApi()

    async def refuse(call: Call) -> Refusal | None:
        return BROKEN if call.verb == "delete" else None

    async with proxied(api, tmp_path) as (proxy, kube):
        proxy.before = refuse
        with pytest.raises(ApiError, match="500 InternalError: InternalError, by the test"):
            await kube.delete(kinds.POD, "team", "p", "uid")
    assert api.calls == []
    assert [e.status for e in proxy.writes] == [0]


async def test_a_hook_holds_a_request(tmp_path: Path) -> None:
    api, go = ScriptedApi(), asyncio.Event()
    api.add(Answer(POD))

    async def hold(_call: Call) -> Refusal | None:
        await go.wait()
        return None

    async with proxied(api, tmp_path) as (proxy, kube):
        proxy.before = hold
        asking = asyncio.create_task(kube.get(kinds.POD, "team", "p"))
        await until(lambda: proxy.calls)
        assert api.calls == []
        go.set()
        assert await asking == POD


async def test_a_cut_before_keeps_the_server_from_seeing_the_request(tmp_path: Path) -> None:
    api = ScriptedApi()

    async def cut(_call: Call) -> Refusal | None:
        raise CutError

    async with proxied(api, tmp_path) as (proxy, kube):
        proxy.before = cut
        with pytest.raises(UnreachableError):
            await kube.create(POD, "me")
    assert api.calls == []


async def test_a_cut_after_loses_the_answer_alone(tmp_path: Path) -> None:
    api, told = ScriptedApi(), list[tuple[str, int]]()
    api.add(Answer(POD, 201))

    async def cut(call: Call, status: int) -> None:
        told.append((call.name, status))
        raise CutError

    async with proxied(api, tmp_path) as (proxy, kube):
        proxy.after = cut
        with pytest.raises(UnreachableError):
            await kube.create(POD, "me")
        assert [e.status for e in proxy.writes] == [201]
    assert told == [("p", 201)]
    assert len(api.calls) == 1


async def test_a_watch_comes_through_event_by_event(tmp_path: Path) -> None:
    api = ScriptedApi()
    long = "x" * 100_000
    api.add(Stream([event("ADDED", "a")[:9], event("ADDED", "a")[9:], event("ADDED", long)]))
    async with proxied(api, tmp_path) as (proxy, kube):
        watching = Watching(kube)
        await until(lambda: len(watching.events) == 2)
        assert watching.events == [("ADDED", "a"), ("ADDED", long)]
        assert proxy.watches("pods") == 1
        watching.task.cancel()
        await until(lambda: proxy.watches("pods") == 0)


async def test_a_watch_that_the_server_ends_ends(tmp_path: Path) -> None:
    api = ScriptedApi()
    api.add(Stream([event("ADDED", "a")], "ends"))
    async with proxied(api, tmp_path) as (_, kube):
        watching = Watching(kube)
        await watching.task
        assert watching.events == [("ADDED", "a")]


async def test_the_next_watches_of_a_kind_are_refused(tmp_path: Path) -> None:
    api = ScriptedApi()
    api.add(Stream([], "ends"), Stream([event("ADDED", "a")], "ends"))
    async with proxied(api, tmp_path) as (proxy, kube):
        proxy.refuse_watches("services", EXPIRED)
        await Watching(kube).task
        proxy.refuse_watches("pods", EXPIRED)
        with pytest.raises(ExpiredError):
            await Watching(kube).task
        again = Watching(kube)
        await again.task
        assert again.events == [("ADDED", "a")]


@pytest.mark.parametrize(("error", "kind"), [(EXPIRED, ExpiredError), (BROKEN, ApiError)])
async def test_a_running_watch_ends_with_an_error(
    error: Refusal, kind: type[ApiError], tmp_path: Path
) -> None:
    api = ScriptedApi()
    api.add(Stream([]))
    async with proxied(api, tmp_path) as (proxy, kube):
        watching = Watching(kube)
        await until(lambda: proxy.watches("pods"))
        proxy.end_watches("services", error)
        proxy.end_watches("pods", error)
        with pytest.raises(kind) as caught:
            await watching.task
        assert caught.value.status == error.status


async def test_a_silent_watch_stays_open_and_tells_nothing_and_the_next_one_does(
    tmp_path: Path,
) -> None:
    api, server_ends = ScriptedApi(), Stream([event("ADDED", "a")], "ends")
    async with proxied(api, tmp_path) as (proxy, kube):
        watching = Watching(kube)
        # The server answers once the silence is prepared, so that no event slips through.
        api.add(Stream([]))
        await until(lambda: proxy.watches("pods"))
        proxy.silence("pods")
        api.add(server_ends)
        second = Watching(kube)
        await second.task
        assert second.events == [("ADDED", "a")]
        assert not watching.task.done()
        assert watching.events == []
        watching.task.cancel()


async def test_the_events_of_a_silent_watch_are_counted(tmp_path: Path) -> None:
    api = ScriptedApi()
    more = asyncio.Event()

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await more.wait()
        await response.write(event("ADDED", "a"))
        return response

    api.handle = stream  # type: ignore[method-assign]
    async with proxied(api, tmp_path) as (proxy, kube):
        watching = Watching(kube)
        await until(lambda: proxy.watches("pods"))
        proxy.silence("pods")
        more.set()
        await until(lambda: proxy.swallowed == 1)
        # Also its end, as that of a connection whose other side is gone, stays unseen.
        assert not watching.task.done()
        watching.task.cancel()


async def test_deletions_of_a_kind_are_hidden_and_nothing_else(tmp_path: Path) -> None:
    api = ScriptedApi()
    api.add(
        Stream([event("ADDED", "a"), event("DELETED", "a"), event("ADDED", "b")], "ends"),
        Stream([event("DELETED", "b")], "ends"),
    )
    async with proxied(api, tmp_path) as (proxy, kube):
        proxy.hides_deletions.add("pods")
        watching = Watching(kube)
        await watching.task
        assert watching.events == [("ADDED", "a"), ("ADDED", "b")]
        assert proxy.swallowed == 1
        proxy.hides_deletions.clear()
        again = Watching(kube)
        await again.task
        assert again.events == [("DELETED", "b")]


async def test_connections_are_refused_for_a_while_and_open_ones_break(tmp_path: Path) -> None:
    api = ScriptedApi()
    api.add(Stream([]), Answer(POD))
    async with proxied(api, tmp_path) as (proxy, kube):
        watching = Watching(kube)
        await until(lambda: proxy.watches("pods"))
        async with proxy.refusing():
            with pytest.raises(Exception, match=r"ayload|closed|reset|disconnected"):
                await watching.task
            with pytest.raises(UnreachableError):
                await kube.get(kinds.POD, "team", "p")
        assert await kube.get(kinds.POD, "team", "p") == POD
    assert [call.query.get("watch") for call in api.calls] == ["true", None]

"""The slices as last known, through every way in which a watch can end."""
# ruff: noqa: ARG002 - the signatures are the real client's

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from moriio_operator.kube.client import Kube
from moriio_operator.kube.errors import ApiError
from moriio_operator.kube.kinds import Kind
from moriio_operator.kube.objects import Object
from moriio_operator.node import slices as module
from moriio_operator.node.slices import SliceWatch

from unit.samples import Json
from unit.scripted_api import Answer, ScriptedApi, Stream, error, line, page, serving
from unit.waiting import until

EXPIRED: Json = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries come at once; how long they wait is a test of its own."""
    monkeypatch.setattr(module, "_FIRST_RETRY_S", 0.001)


def piece(name: str, version: int = 1, text: str = "") -> Json:
    return {"metadata": {"name": name, "resourceVersion": str(version)}, "text": text}


class Following:
    """A watch that runs against a scripted server."""

    def __init__(self, api: ScriptedApi, watch: SliceWatch) -> None:
        self.api = api
        self.watch = watch

    def known(self) -> dict[str, str]:
        return {s["metadata"]["name"]: s["text"] for s in self.watch.slices()}

    async def knows(self, **slices: str) -> None:
        """Wait until these slices are what is known."""
        await until(lambda: self.known() == slices)

    async def asked(self, count: int) -> list[str]:
        """Wait for so many calls; give each as `list` or the version that is watched from."""
        await until(lambda: len(self.api.calls) >= count)
        queries = [call.query for call in self.api.calls]
        return [q["resourceVersion"] if "watch" in q else "list" for q in queries]


@asynccontextmanager
async def following(*answers: Answer | Stream) -> AsyncIterator[Following]:
    api = ScriptedApi()
    api.add(*answers)
    async with serving(api) as kube:
        watch = SliceWatch(kube, "team", ["llm-p", "llm-d"])
        running = asyncio.create_task(watch.run())
        try:
            yield Following(api, watch)
            assert not running.done()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_only_slices_of_the_services_are_asked_for() -> None:
    async with following(page([]), Stream([])) as seen:
        await seen.asked(2)
    for call in seen.api.calls:
        assert call.path == "/apis/discovery.k8s.io/v1/namespaces/team/endpointslices"
        assert call.query["labelSelector"] == "kubernetes.io/service-name in (llm-d,llm-p)"


async def test_before_the_first_list_nothing_is_known() -> None:
    async with following() as seen:
        await seen.asked(1)
        assert not seen.watch.listed
        seen.api.add(page([piece("a", text="x")]))
        await seen.knows(a="x")
        assert seen.watch.listed


async def test_events_add_change_and_remove() -> None:
    events = [
        line("ADDED", piece("b", 11, "new")),
        line("MODIFIED", piece("a", 12, "changed")),
        line("DELETED", piece("c", 13)),
    ]
    async with following(page([piece("a"), piece("c")]), Stream(events)) as seen:
        await seen.knows(a="changed", b="new")


async def test_a_deletion_of_what_is_not_known_is_no_trouble() -> None:
    events = [line("DELETED", piece("x", 11)), line("ADDED", piece("a", 12, "x"))]
    async with following(page([]), Stream(events)) as seen:
        await seen.knows(a="x")


async def test_a_watch_that_ends_is_resumed_from_the_last_version_seen() -> None:
    first = Stream([line("ADDED", piece("a", 11, "x"))], "ends")
    async with following(page([]), first, Stream([])) as seen:
        assert await seen.asked(3) == ["list", "10", "11"]
        assert seen.known() == {"a": "x"}


async def test_a_bookmark_moves_the_version_and_is_no_slice() -> None:
    bookmark = {"metadata": {"resourceVersion": "99"}}
    async with following(
        page([]), Stream([line("BOOKMARK", bookmark)], "ends"), Stream([])
    ) as seen:
        assert await seen.asked(3) == ["list", "10", "99"]
        assert seen.known() == {}


@pytest.mark.parametrize(
    "expired",
    [error(410, "Expired"), Stream([line("ERROR", EXPIRED)])],
    ids=["at once", "within"],
)
async def test_a_version_that_expired_begins_with_a_new_list(expired: Answer | Stream) -> None:
    answers = [page([piece("a")]), expired, page([piece("b", text="x")], "20"), Stream([])]
    async with following(*answers) as seen:
        assert await seen.asked(4) == ["list", "10", "list", "20"]
        await seen.knows(b="x")


async def test_a_deletion_that_a_gap_hid_is_found_by_the_new_list() -> None:
    broken = Stream([line("ADDED", piece("b", 11))], "breaks")
    async with following(page([piece("a")]), broken, page([piece("b")], "30"), Stream([])) as seen:
        assert await seen.asked(4) == ["list", "10", "list", "30"]
        await seen.knows(b="")


@pytest.mark.parametrize(
    "trouble",
    [
        error(500, "InternalError"),
        error(403, "Forbidden"),
        Answer("<html>", 502),
        Stream([b"no json\n"]),
        Stream([b'{"type": "ADDED"}\n']),
        Stream([], "breaks"),
    ],
    ids=["500", "403", "html", "garbage", "half", "broken"],
)
async def test_whatever_breaks_a_watch_it_begins_again_and_keeps_what_is_known(
    trouble: Answer | Stream,
) -> None:
    async with following(page([piece("a", text="x")]), trouble) as seen:
        assert await seen.asked(3) == ["list", "10", "list"]
        assert seen.known() == {"a": "x"}
        seen.api.add(page([piece("a", text="y")], "40"), Stream([]))
        await seen.knows(a="y")


async def test_a_list_that_fails_is_tried_again() -> None:
    answers = [error(503, "Unavailable"), error(503, "Unavailable"), page([piece("a", text="x")])]
    async with following(*answers) as seen:
        await seen.knows(a="x")


class Away(Kube):
    """An API server that is away for a long time."""

    def __init__(self, failures: int) -> None:
        self.left = failures
        self.back = asyncio.Event()

    async def list(
        self, kind: Kind, namespace: str | None = None, selector: str = "", fields: str = ""
    ) -> tuple[list[Object], str]:
        if not self.left:
            self.back.set()
            await asyncio.Event().wait()
        self.left -= 1
        raise ApiError(503, "Unavailable", "away")


async def test_an_api_server_that_is_away_for_hours_ends_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_LONGEST_RETRY_S", 0.0)
    kube = Away(3000)
    running = asyncio.create_task(SliceWatch(kube, "team", ["x"]).run())
    coming_back = asyncio.create_task(kube.back.wait())
    await asyncio.wait([running, coming_back], return_when=asyncio.FIRST_COMPLETED, timeout=10)
    assert not running.done()
    assert coming_back.done()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_retries_wait_longer_and_longer_up_to_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[float] = []
    real = asyncio.sleep

    async def noted(seconds: float) -> None:
        waits.append(seconds)
        await real(0)

    monkeypatch.setattr(module, "_FIRST_RETRY_S", 0.5)
    monkeypatch.setattr("random.uniform", lambda _low, _high: 1.0)
    monkeypatch.setattr(asyncio, "sleep", noted)
    kube = Away(7)
    running = asyncio.create_task(SliceWatch(kube, "team", ["x"]).run())
    await asyncio.wait_for(kube.back.wait(), 10)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert waits == [0.5, 1, 2, 4, 8, 10, 10]

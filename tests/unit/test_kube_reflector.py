"""The objects as last known, through every way in which a watch can end."""
# ruff: noqa: ARG002 - the signatures are the real client's

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
from moriio_operator.kube import reflector as module
from moriio_operator.kube import wire
from moriio_operator.kube.client import Kube
from moriio_operator.kube.errors import ApiError, ExpiredError
from moriio_operator.kube.kinds import ENDPOINT_SLICE, POD, Kind
from moriio_operator.kube.objects import Object
from moriio_operator.kube.reflector import OnChange, Reflector

from unit.samples import Json
from unit.scripted_api import Answer, ScriptedApi, Stream, error, line, page, serving
from unit.waiting import until

EXPIRED: Json = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds follow at once; how long they wait is a test of its own."""
    monkeypatch.setattr(module, "_FIRST_RETRY_S", 0.001)
    monkeypatch.setattr(module, "_ROUND_S", 0.001)


def piece(name: str, version: int = 1, text: str = "", namespace: str = "team") -> Json:
    metadata = {"name": name, "namespace": namespace, "resourceVersion": str(version)}
    return {"metadata": metadata, "text": text}


class Following:
    """A reflector that runs against a scripted server."""

    def __init__(self, api: ScriptedApi, reflector: Reflector) -> None:
        self.api = api
        self.reflector = reflector

    def known(self) -> dict[str, str]:
        return {obj["metadata"]["name"]: obj["text"] for obj in self.reflector.objects()}

    async def knows(self, **objects: str) -> None:
        """Wait until these objects are what is known."""
        await until(lambda: self.known() == objects)

    async def asked(self, count: int) -> list[str]:
        """Wait for so many calls; give each as `list` or the version that is watched from."""
        await until(lambda: len(self.api.calls) >= count)
        queries = [call.query for call in self.api.calls]
        return [q["resourceVersion"] if "watch" in q else "list" for q in queries]


def of_slices(kube: Kube, on_change: OnChange = lambda *_: None) -> Reflector:
    return Reflector(kube, ENDPOINT_SLICE, "team", labels="a in (b,c)", on_change=on_change)


@asynccontextmanager
async def following(
    *answers: Answer | Stream, make: Callable[[Kube], Reflector] = of_slices
) -> AsyncIterator[Following]:
    api = ScriptedApi()
    api.add(*answers)
    async with serving(api) as kube:
        reflector = make(kube)
        running = asyncio.create_task(reflector.run())
        try:
            yield Following(api, reflector)
            assert not running.done()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_only_what_is_selected_is_asked_for() -> None:
    async with following(page([]), Stream([])) as seen:
        await seen.asked(2)
    for call in seen.api.calls:
        assert call.path == "/apis/discovery.k8s.io/v1/namespaces/team/endpointslices"
        assert call.query["labelSelector"] == "a in (b,c)"
        assert "fieldSelector" not in call.query


async def test_a_field_selector_spans_all_namespaces_without_one() -> None:
    def make(kube: Kube) -> Reflector:
        return Reflector(kube, POD, fields="spec.nodeName=n1")

    both = [piece("a", namespace="x", text="1"), piece("a", namespace="y", text="2")]
    async with following(page(both), Stream([]), make=make) as seen:
        await seen.asked(2)
        one = seen.reflector.get("y", "a")
        assert (len(seen.reflector.objects()), one and one["text"]) == (2, "2")
        assert seen.reflector.get("z", "a") is None
    for call in seen.api.calls:
        assert call.path == "/api/v1/pods"
        assert call.query["fieldSelector"] == "spec.nodeName=n1"
        assert "labelSelector" not in call.query


async def test_before_the_first_list_nothing_is_known() -> None:
    async with following() as seen:
        await seen.asked(1)
        assert not seen.reflector.listed
        seen.api.add(page([piece("a", text="x")]))
        await seen.knows(a="x")
        assert seen.reflector.listed


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


async def test_a_bookmark_moves_the_version_and_is_no_object() -> None:
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
    "failure",
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
    failure: Answer | Stream,
) -> None:
    async with following(page([piece("a", text="x")]), failure) as seen:
        assert await seen.asked(3) == ["list", "10", "list"]
        assert seen.known() == {"a": "x"}
        seen.api.add(page([piece("a", text="y")], "40"), Stream([]))
        await seen.knows(a="y")


async def test_a_list_that_fails_is_tried_again() -> None:
    answers = [error(503, "Unavailable"), Answer("<html>"), page([piece("a", text="x")])]
    async with following(*answers) as seen:
        await seen.knows(a="x")


async def test_a_silent_watch_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "_SILENCE_S", 0.05)
    async with following(page([piece("a")]), Stream([]), page([], "20")) as seen:
        assert (await seen.asked(3))[:3] == ["list", "10", "list"]
        await seen.knows()


async def test_every_change_is_told_once_with_the_object_before_and_after() -> None:
    changes: list[tuple[str, str]] = []

    def note(before: Object | None, after: Object | None) -> None:
        changes.append(("" if before is None else before["text"], after["text"] if after else ""))

    events = [
        line("MODIFIED", piece("a", 11, "a2")),
        line("ADDED", piece("c", 12, "c1")),
        line("DELETED", piece("c", 13)),
        line("DELETED", piece("unknown", 14)),
        line("ERROR", EXPIRED),
    ]
    # The new list brings what is known already, what is new, and not what a gap took away.
    again = page([piece("a", 11, "a2"), piece("d", 15, "d1")], "15")
    first = page([piece("a", 1, "a1"), piece("b", 2, "b1")])
    answers = (first, Stream(events), again, Stream([]))
    async with following(*answers, make=lambda kube: of_slices(kube, note)) as seen:
        await seen.asked(4)
    assert changes == [
        ("", "a1"), ("", "b1"), ("a1", "a2"), ("", "c1"), ("c1", ""), ("b1", ""), ("", "d1"),
    ]  # fmt: skip


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
    monkeypatch.setattr(module, "_FIRST_RETRY_S", 0.0)
    monkeypatch.setattr(module, "_ROUND_S", 0.0)
    kube = Away(3000)
    running = asyncio.create_task(Reflector(kube, ENDPOINT_SLICE, "team").run())
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
    running = asyncio.create_task(Reflector(kube, ENDPOINT_SLICE, "team").run())
    await asyncio.wait_for(kube.back.wait(), 10)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert waits == [0.5, 1, 2, 4, 8, 10, 10]


class Ending(Kube):
    """An API server that ends each watch at once, or calls each version expired."""

    def __init__(self, *, expires: bool) -> None:
        self.expires = expires
        self.calls: list[tuple[str, float]] = []

    async def list(
        self, kind: Kind, namespace: str | None = None, selector: str = "", fields: str = ""
    ) -> tuple[list[Object], str]:
        self.calls.append(("list", time.monotonic()))
        return [], "1"

    async def watch(
        self, kind: Kind, namespace: str | None, selector: str, version: str, fields: str = ""
    ) -> AsyncIterator[tuple[str, Object]]:
        self.calls.append(("watch", time.monotonic()))
        if self.expires:
            raise ExpiredError(410, "Expired", "too old")
        none: tuple[tuple[str, Object], ...] = ()
        for nothing in none:
            yield nothing


@pytest.mark.parametrize(("expires", "again"), [(True, "list"), (False, "watch")])
async def test_no_round_begins_before_its_time(
    *, expires: bool, again: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ROUND_S", 0.2)
    kube = Ending(expires=expires)
    running = asyncio.create_task(Reflector(kube, ENDPOINT_SLICE, "team").run())
    await until(lambda: sum(call == again for call, _ in kube.calls) >= 4)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    rounds = [at for call, at in kube.calls if call == again]
    apart = [later - earlier for earlier, later in pairwise(rounds)]
    assert min(apart) > 0.15

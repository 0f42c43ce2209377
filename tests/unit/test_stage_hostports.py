"""The judgement of recorded pods finds what it is there to find, and nothing else."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from moriio_operator.api.ports import PortRange
from stage.api import Api
from stage.hostports import (
    Recorder,
    Sight,
    clashes,
    cycles,
    doubles,
    early_returns,
    excerpt,
    sight_of,
)

RANGE = PortRange(20_000, 20_015)


def sights(*told: Sight) -> list[Sight]:
    """Number them as the API server would."""
    return [replace(sight, version=number) for number, sight in enumerate(told, 1)]


def engine(serial: int, node: str = "n", owner: str = "o", **changes: Any) -> Sight:
    base = RANGE.start + serial % RANGE.length
    made = Sight(
        version=0,
        type="MODIFIED",
        pod=f"llm-decode-{serial}",
        uid=f"{owner}-{serial}",
        owner=owner,
        node=node,
        ports=tuple(range(base, base + 4)),
        phase="Running",
    )
    return replace(made, **changes)


def stranger(node: str = "n", *ports: int, **changes: Any) -> Sight:
    made = Sight(version=0, type="MODIFIED", pod="stranger", uid="s", node=node, ports=ports)
    return replace(made, **changes)


def test_two_pods_with_a_port_of_one_node_clash_from_the_event_on_that_placed_the_second() -> None:
    history = sights(
        engine(0), engine(0, node="", owner="other"), engine(0, owner="other", pod="b-decode-0")
    )
    found = clashes(history)
    assert [(c.version, c.place, c.ports) for c in found] == [
        (3, "n", (20_000, 20_001, 20_002, 20_003))
    ]
    assert (found[0].first, found[0].second) == ("llm-decode-0", "b-decode-0")
    assert str(found[0]).startswith("at 3 b-decode-0 shares 20000,20001")


def test_a_clash_of_one_event_is_found_and_told_once() -> None:
    history = sights(
        engine(0), stranger("n", 20_003), stranger("n", 20_003, type="DELETED"), engine(0)
    )
    assert [(c.version, c.ports, c.second) for c in clashes(history)] == [
        (2, (20_003,), "stranger")
    ]


def test_a_stopping_pod_holds_its_ports_until_it_is_gone() -> None:
    stops = engine(0, stops=True)
    other = engine(0, owner="other")
    assert clashes(sights(stops, other))
    assert not clashes(sights(stops, replace(stops, type="DELETED"), other))


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_ended_holds_nothing(phase: str) -> None:
    assert not clashes(sights(engine(0), engine(0, phase=phase), engine(0, owner="other")))


def test_the_same_ports_on_another_node_or_on_none_are_no_clash() -> None:
    history = sights(engine(0), engine(0, "m", "other"), engine(0, "", "third"), stranger("n", 1))
    assert not clashes(history)


def test_other_ports_beside_are_no_clash() -> None:
    assert not clashes(sights(engine(0), engine(4), stranger("n", 20_008)))


def test_engines_with_the_same_ports_on_two_nodes_or_on_none_are_doubles() -> None:
    history = sights(engine(0), engine(0, "", "other", phase="Pending"))
    assert [d.version for d in doubles(history)] == [2]
    assert not doubles(sights(engine(0), engine(0, type="DELETED"), engine(0, "m", "other")))
    assert not doubles(sights(engine(0), stranger("m", 20_000)))


def test_a_port_that_comes_back_within_a_cycle_is_found() -> None:
    assert not early_returns(sights(engine(0), engine(4), engine(16), engine(20)), RANGE)
    early = engine(14, ports=(20_000, 20_001, 20_002, 20_003))
    found = early_returns(sights(engine(0), early), RANGE)
    assert found[0] == "llm-decode-14 got 20000 14 ports after llm-decode-0"
    assert len(found) == 4


def test_a_name_that_comes_back_is_a_port_that_comes_back() -> None:
    assert early_returns(sights(engine(0), engine(0, uid="o-again")), RANGE)
    assert not early_returns(sights(engine(0), engine(0, owner="another")), RANGE)


def test_the_walks_through_the_range_are_counted_by_owner() -> None:
    history = sights(engine(0), engine(40), engine(8, owner="other"), stranger("n", 20_000))
    assert cycles(history, RANGE) == {"o": 2.5, "other": 0.5}


def test_an_excerpt_tells_the_life_of_the_pods_asked_for() -> None:
    history = sights(engine(0, "", phase="Pending"), engine(4), engine(0, stops=True))
    assert excerpt(history, "llm-decode-0") == (
        "1 MODIFIED llm-decode-0 (Pending) on no node: 20000,20001,20002,20003\n"
        "3 MODIFIED llm-decode-0 (Running, stops) on n: 20000,20001,20002,20003"
    )


def pod(version: int, **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "p-decode-4", "uid": "u", "resourceVersion": str(version), **metadata},
        "spec": {
            "nodeName": "n",
            "initContainers": [{"ports": [{"containerPort": 3, "hostPort": 3}]}],
            "containers": [{"ports": [{"containerPort": 2, "hostPort": 1}, {"containerPort": 9}]}],
        },
        "status": {"phase": "Running"},
    }


def test_a_sight_holds_what_a_pod_declares_of_its_node() -> None:
    owners = [{"kind": "PDDeployment", "uid": "o"}]
    told = sight_of("ADDED", pod(7, ownerReferences=owners, deletionTimestamp="now"))
    assert told == Sight(7, "ADDED", "p-decode-4", "u", "o", "n", (1, 3), "Running", stops=True)
    of_a_router = [{"kind": "ReplicaSet", "uid": "r"}]
    assert sight_of("ADDED", pod(7, ownerReferences=of_a_router)).owner == ""


class Server:
    """Serves an empty list of pods, then one watch after the other."""

    def __init__(self, *watches: list[dict[str, Any]]) -> None:
        self._watches = list(watches)
        self.asked: list[str] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return web.json_response({"metadata": {"resourceVersion": "5"}, "items": []})
        self.asked.append(request.query["resourceVersion"])
        if not self._watches:
            await asyncio.sleep(60)
        events = self._watches.pop(0)
        return web.Response(text="".join(json.dumps(event) + "\n" for event in events))


async def recorded(server: Server, *, until_asked: int) -> list[Sight]:
    app = web.Application()
    app.router.add_get("/{path:.*}", server.handle)
    test_server = TestServer(app)
    await test_server.start_server(shutdown_timeout=0)
    try:
        async with (
            ClientSession() as session,
            Recorder.recording(
                Api(str(test_server.make_url("")).rstrip("/"), session), "ns"
            ) as made,
            asyncio.timeout(5),
        ):
            while len(server.asked) < until_asked:
                made.check()
                await asyncio.sleep(0.01)
            return made.history
    finally:
        await test_server.close()


async def test_a_watch_that_ends_is_taken_up_where_it_ended() -> None:
    first, last = {"type": "ADDED", "object": pod(6)}, {"type": "DELETED", "object": pod(9)}
    server = Server([first], [last])
    history = await recorded(server, until_asked=3)
    assert server.asked == ["5", "6", "9"]
    assert [(sight.version, sight.type) for sight in history] == [(6, "ADDED"), (9, "DELETED")]


@pytest.mark.parametrize(
    "event",
    [
        {"type": "ERROR", "object": {"code": 410}},
        {"type": "ADDED", "object": pod(5)},
    ],
)
async def test_a_record_with_a_hole_is_an_error(event: dict[str, Any]) -> None:
    with pytest.raises(RuntimeError, match="the record"):
        await recorded(Server([event]), until_asked=2)

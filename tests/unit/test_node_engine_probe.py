"""Engines asked on loopback: once each, in the background, and without harm when none answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import zmq
import zmq.asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer
from moriio_operator.api.report import EngineReport
from moriio_operator.facts.terms import Attention, Mode, Role
from moriio_operator.node import engine_probe as module
from moriio_operator.node.engine_probe import EngineProbe
from moriio_operator.stack.registration import Registration
from moriio_operator.stack.vllm_moriio.description import HANDSHAKE_REQUEST
from moriio_operator.stack.vllm_moriio.registration import registration

from unit.test_stack_description import LAYOUT, metadata
from unit.waiting import PATIENCE_S, until

VERSION = json.dumps({"version": "0.33.0+rocm72"}).encode()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions follow each other at once."""
    monkeypatch.setattr(module, "PAUSE_S", 0.001)


class Engine:
    """An engine's handshake listener and its HTTP port, each of which answers as told."""

    def __init__(self, listener: zmq.asyncio.Socket, port: int) -> None:
        self.listener = listener
        self.port = port
        self.http = 0
        # What the HTTP port answers, and how often it was asked.
        self.body, self.status, self.requests = VERSION, 200, 0
        self.at_once, self.most_at_once = 0, 0
        self.slow_s = 0.0

    @property
    def registered(self) -> Registration:
        return registration(
            Role.PREFILL,
            Mode.READ,
            host="127.0.0.1",
            http=self.http,
            handshake=self.port,
            notify=2,
            tensor=2,
        )

    async def version(self, request: web.Request) -> web.Response:
        assert request.path == "/version"
        self.requests += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(self.slow_s)
        self.at_once -= 1
        return web.Response(body=self.body, status=self.status, headers={"Location": "/version"})

    async def answer(self, *frames: bytes) -> None:
        async with asyncio.timeout(PATIENCE_S):
            peer, request = await self.listener.recv_multipart()
            assert request == HANDSHAKE_REQUEST
            for frame in frames:
                await self.listener.send_multipart([peer, b"", frame])


@asynccontextmanager
async def engine() -> AsyncIterator[Engine]:
    context = zmq.asyncio.Context()
    listener = context.socket(zmq.ROUTER)
    made = Engine(listener, listener.bind_to_random_port("tcp://127.0.0.1"))
    app = web.Application()
    app.router.add_get("/{path:.*}", made.version)
    server = TestServer(app)
    await server.start_server(shutdown_timeout=0)
    made.http = server.port or 0
    try:
        yield made
    finally:
        await server.close()
        listener.close(0)
        context.term()


class Answers:
    """What engines answered, as it comes."""

    def __init__(self) -> None:
        self.models: asyncio.Queue[EngineReport] = asyncio.Queue()
        self.versions: list[EngineReport] = []

    def take(self, report: EngineReport) -> None:
        if report.version is None:
            self.models.put_nowait(report)
        else:
            self.versions.append(report)

    async def model(self) -> EngineReport:
        return await asyncio.wait_for(self.models.get(), PATIENCE_S)


@asynccontextmanager
async def probe() -> AsyncIterator[tuple[EngineProbe, Answers]]:
    answers = Answers()
    made = EngineProbe(answers.take)
    try:
        yield made, answers
    finally:
        await made.close()


def follow(probing: EngineProbe, **engines: Engine) -> None:
    """These engines serve, and no other is there."""
    probing.follow({uid: each.registered for uid, each in engines.items()}, engines)


async def test_who_serves_is_asked_once() -> None:
    async with engine() as asked, probe() as (probing, answers):
        follow(probing, u1=asked)
        await asked.answer(metadata(kv_head_layouts={"a": LAYOUT}), b"memory")
        # Of two ranks.
        assert await answers.model() == EngineReport(
            pod_uid="u1", attention=Attention.GQA, kv_heads=2 * LAYOUT[0], recurrent_state=False
        )
        await until(lambda: answers.versions)
        assert answers.versions == [EngineReport(pod_uid="u1", version="0.33.0+rocm72")]
        follow(probing, u1=asked)
        assert not await asked.listener.poll(100)
        assert asked.requests == 1


async def test_one_that_serves_no_more_for_a_while_is_not_asked_again() -> None:
    async with engine() as asked, probe() as (probing, answers):
        follow(probing, u1=asked)
        await asked.answer(metadata(), b"memory")
        await answers.model()
        probing.follow({}, {"u1"})
        follow(probing, u1=asked)
        assert not await asked.listener.poll(100)


async def test_one_that_was_gone_is_asked_again() -> None:
    async with engine() as asked, probe() as (probing, answers):
        for _ in range(2):
            follow(probing, u1=asked)
            await asked.answer(metadata(), b"memory")
            assert (await answers.model()).pod_uid == "u1"
            probing.follow({}, {})


@pytest.mark.parametrize(
    "wrong",
    [
        b"no metadata",
        metadata(kv_head_layouts={"a": [10**9]}),
        metadata(kv_head_layouts={"a": [float("inf")]}),
    ],
)
async def test_one_that_does_not_answer_well_is_asked_again(
    wrong: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TIMEOUT_S", 1.0)
    async with engine() as asked, probe() as (probing, answers):
        follow(probing, u1=asked)
        await asked.answer(wrong)
        await asked.answer(metadata(), b"memory")
        assert (await answers.model()).attention is Attention.GQA


async def test_a_handshake_of_any_length_fills_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT_S", 0.5)
    async with engine() as asked, probe() as (probing, answers):
        follow(probing, u1=asked)
        await asked.answer(metadata(engine_id="x" * 2 * 2**20))
        await asked.answer(metadata(), b"memory")
        assert (await answers.model()).pod_uid == "u1"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 200),
        (b"[]", 200),
        (b"[" * 4000, 200),
        (b'{"version": "x y"}', 200),
        (b'{"version": "0.33.0"}' + b" " * 5000, 200),
        (VERSION, 401),
        (VERSION, 302),
    ],
)
async def test_what_is_no_version_is_none_and_asked_for_again(body: bytes, status: int) -> None:
    async with engine() as asked, probe() as (probing, answers):
        asked.body, asked.status = body, status
        follow(probing, u1=asked)
        await until(lambda: asked.requests)
        assert answers.versions == []
        asked.body, asked.status = VERSION, 200
        await until(lambda: answers.versions)


async def test_one_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT_S", 0.3)
    async with engine() as asked, probe() as (probing, answers):
        asked.status = 500
        follow(probing, u1=asked)
        for _ in range(module.TRIES):
            await asked.answer()
        await asyncio.wait_for(probing._asked["u1"], PATIENCE_S)
        assert (answers.models.empty(), answers.versions) == (True, [])
        assert asked.requests == module.TRIES
        assert not await asked.listener.poll(100)


async def test_of_many_engines_a_few_are_asked_at_a_time() -> None:
    async with engine() as asked, probe() as (probing, answers):
        asked.slow_s = 0.02
        follow(probing, **{f"u{n}": asked for n in range(20)})
        for _ in range(20):
            await asked.answer(metadata(), b"memory")
        await until(lambda: len(answers.versions) == 20)
        assert 1 < asked.most_at_once <= module.AT_ONCE

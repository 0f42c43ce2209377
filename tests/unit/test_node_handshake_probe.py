"""Engines asked on loopback: once each, in the background, and without harm when none answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import zmq
import zmq.asyncio
from moriio_operator.facts.terms import Mode, Role
from moriio_operator.node import handshake_probe as module
from moriio_operator.node.handshake_probe import Inquiry
from moriio_operator.stack.vllm_moriio.description import HANDSHAKE_REQUEST, Description
from moriio_operator.stack.vllm_moriio.registration import Registration, registration

from unit.test_stack_description import LAYOUT, metadata
from unit.waiting import PATIENCE_S


class Engine:
    """An engine's handshake listener."""

    def __init__(self, listener: zmq.asyncio.Socket, port: int) -> None:
        self.listener = listener
        self.port = port

    @property
    def registered(self) -> Registration:
        return registration(
            Role.PREFILL,
            Mode.READ,
            host="127.0.0.1",
            http=1,
            handshake=self.port,
            notify=2,
            tensor=2,
        )

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
    try:
        yield Engine(listener, listener.bind_to_random_port("tcp://127.0.0.1"))
    finally:
        listener.close(0)
        context.term()


class Told:
    """What was told, as it comes."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[tuple[str, Description]] = asyncio.Queue()

    async def next(self) -> tuple[str, Description]:
        return await asyncio.wait_for(self.heard.get(), PATIENCE_S)


@asynccontextmanager
async def inquiry() -> AsyncIterator[tuple[Inquiry, Told]]:
    told = Told()
    made = Inquiry(lambda uid, description: told.heard.put_nowait((uid, description)))
    try:
        yield made, told
    finally:
        await made.close()


async def test_who_serves_is_asked_once() -> None:
    async with engine() as asked, inquiry() as (asking, told):
        engines = {"u-1": asked.registered}
        asking.about(engines)
        await asked.answer(metadata(kv_head_layouts={"a": LAYOUT}), b"memory")
        uid, description = await told.next()
        # Of two ranks.
        assert (uid, description.kv_heads) == ("u-1", 2 * LAYOUT[0])
        asking.about(engines)
        assert not await asked.listener.poll(100)


async def test_one_that_comes_back_into_service_is_asked_again() -> None:
    async with engine() as asked, inquiry() as (asking, told):
        for _ in range(2):
            asking.about({"u-1": asked.registered})
            await asked.answer(metadata(), b"memory")
            assert (await told.next())[0] == "u-1"
            asking.about({})


async def test_one_that_does_not_answer_well_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "TIMEOUT_S", 1.0)
    async with engine() as asked, inquiry() as (asking, told):
        asking.about({"u-1": asked.registered})
        await asked.answer()
        await asked.answer(b"no metadata")
        await asked.answer(metadata(), b"memory")
        assert (await told.next())[0] == "u-1"


async def test_one_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT_S", 0.5)
    async with engine() as asked, inquiry() as (asking, told):
        asking.about({"u-1": asked.registered})
        for _ in range(module.TRIES):
            await asked.answer()
        await asyncio.wait_for(asking._asked["u-1"], PATIENCE_S)
        assert told.heard.empty()
        assert not await asked.listener.poll(100)

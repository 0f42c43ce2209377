"""The sending against a real ROUTER socket: it knows when it is heard, and keeps nothing back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgpack
import pytest
import zmq
import zmq.asyncio
from moriio_operator.facts.terms import Mode, Role
from moriio_operator.node.registration_socket import RegistrationSocket
from moriio_operator.stack.registration import Registration
from moriio_operator.stack.vllm_moriio.registration import registration

from unit.waiting import PATIENCE_S, until


def message(number: int = 0) -> Registration:
    return registration(
        Role.DECODE,
        Mode.READ,
        host="198.18.1.7",
        http=20_000 + number,
        handshake=1,
        notify=2,
        tensor=1,
    )


class Router:
    """The router's end: a bound ROUTER socket."""

    def __init__(self, port: int) -> None:
        self._context = zmq.asyncio.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.bind(f"tcp://127.0.0.1:{port}")

    async def heard(self) -> dict[str, Any]:
        """The next message: an identity and one frame."""
        _, frame = await asyncio.wait_for(self._socket.recv_multipart(), PATIENCE_S)
        unpacked: dict[str, Any] = msgpack.unpackb(frame)
        return unpacked

    async def silent(self) -> bool:
        """Return whether nothing is there to be read."""
        return not await self._socket.poll(100)

    def close(self) -> None:
        self._socket.close(0)
        self._context.term()


@asynccontextmanager
async def calling(port: int) -> AsyncIterator[RegistrationSocket]:
    sending = RegistrationSocket(f"127.0.0.1:{port}")
    watching = asyncio.create_task(sending.watch())
    try:
        yield sending
    finally:
        watching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await watching
        sending.close()


async def test_a_registration_arrives_as_one_map_in_one_frame(unused_tcp_port: int) -> None:
    router = Router(unused_tcp_port)
    async with calling(unused_tcp_port) as sending:
        await until(lambda: sending.connected)
        assert await sending.send([message(0), message(1)]) == 2
        assert await router.heard() == message(0)
        assert await router.heard() == message(1)
    router.close()


async def test_without_a_router_nothing_is_sent_and_nothing_is_kept(unused_tcp_port: int) -> None:
    async with calling(unused_tcp_port) as sending:
        assert await sending.send([message(0), message(1)]) == 0
        assert not sending.connected
        router = Router(unused_tcp_port)
        await until(lambda: sending.connected)
        assert await router.silent()
        assert await sending.send([message(2)]) == 1
        assert await router.heard() == message(2)
        router.close()


async def test_a_router_that_went_and_came_back_is_noticed_and_hears_no_past(
    unused_tcp_port: int,
) -> None:
    async with calling(unused_tcp_port) as sending:
        first = Router(unused_tcp_port)
        await until(lambda: sending.connected)
        first.close()
        await until(lambda: not sending.connected)
        assert await sending.send([message(1)]) == 0
        second = Router(unused_tcp_port)
        await until(lambda: sending.connected)
        assert await second.silent()
        assert await sending.send([message(2)]) == 1
        assert await second.heard() == message(2)
        second.close()


async def test_something_that_listens_but_does_not_speak_zmq_is_no_connection(
    unused_tcp_port: int,
) -> None:
    reached, left = asyncio.Event(), asyncio.Event()

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.set()
        await reader.read()
        writer.close()
        await writer.wait_closed()
        left.set()

    server = await asyncio.start_server(mute, "127.0.0.1", unused_tcp_port)
    async with calling(unused_tcp_port) as sending:
        await asyncio.wait_for(reached.wait(), PATIENCE_S)
        assert await sending.send([message()]) == 0
        assert not sending.connected
    await asyncio.wait_for(left.wait(), PATIENCE_S)
    server.close()


async def test_nothing_to_say_is_nothing_sent(unused_tcp_port: int) -> None:
    async with calling(unused_tcp_port) as sending:
        assert await sending.send([]) == 0

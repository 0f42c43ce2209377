"""Asks engines what they loaded: the handshake's metadata, which any number of peers may fetch.

It answers once the KV cache is registered, so whoever serves has it. Asked once an engine, of its
first rank.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

import structlog
import zmq
import zmq.asyncio

from moriio_operator.stack.vllm_moriio.description import (
    HANDSHAKE_REQUEST,
    Description,
    from_handshake,
)
from moriio_operator.stack.vllm_moriio.registration import Registration, handshake_address

log = structlog.get_logger(__name__)

# Takes what was told, and whose pod told it, by uid.
Tell: TypeAlias = Callable[[str, Description], None]

TIMEOUT_S = 5.0
TRIES = 3
_MOST_BYTES = 64 * 2**20


class Inquiry:
    """Who was asked, and the questions that are under way."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._context = zmq.asyncio.Context()
        self._asked: dict[str, asyncio.Task[None]] = {}

    def about(self, engines: dict[str, Registration]) -> None:
        """Ask those who were not asked yet, in the background; forget those who left."""
        for uid in self._asked.keys() - engines.keys():
            self._asked.pop(uid).cancel()
        for uid in engines.keys() - self._asked.keys():
            self._asked[uid] = asyncio.create_task(self._ask(uid, engines[uid]))

    async def close(self) -> None:
        """Leave what is under way."""
        for task in self._asked.values():
            task.cancel()
        await asyncio.gather(*self._asked.values(), return_exceptions=True)
        self._context.term()

    async def _ask(self, uid: str, engine: Registration) -> None:
        address = handshake_address(engine)
        for _ in range(TRIES):
            try:
                told = await self._answer(address, engine["tp_size"])
            except (TimeoutError, ValueError, zmq.ZMQError) as error:
                log.info("engine not described", pod_uid=uid, address=address, error=repr(error))
                continue
            self._tell(uid, told)
            return

    async def _answer(self, address: str, tensor: int) -> Description:
        with self._context.socket(zmq.DEALER) as asking:
            asking.setsockopt(zmq.LINGER, 0)
            # Whatever answers there must not fill this process's memory.
            asking.setsockopt(zmq.MAXMSGSIZE, _MOST_BYTES)
            asking.connect(f"tcp://{address}")
            async with asyncio.timeout(TIMEOUT_S):
                await asking.send(HANDSHAKE_REQUEST)
                frames = await asking.recv_multipart()
        return from_handshake(frames[-1], tensor)

"""Asks each engine once what it is and what it loaded, in the background.

Two questions: vLLM's version, by HTTP, and the handshake's metadata, which any number of peers may
fetch and which is there once the KV cache is registered. Whoever serves can answer both. A question
that gets no answer is asked again a few times. No engine is waited for: a few questions are under
way at a time, and all others wait for their turn, so that whatever answers at those addresses fills
neither this process's memory nor its time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import asdict
from typing import TypeAlias

import aiohttp
import structlog
import zmq
import zmq.asyncio

from moriio_operator.api.report import EngineReport
from moriio_operator.stack.registration import Registration
from moriio_operator.stack.vllm_moriio.description import (
    HANDSHAKE_REQUEST,
    VERSION_PATH,
    from_handshake,
    version_from_answer,
)
from moriio_operator.stack.vllm_moriio.registration import handshake_address

log = structlog.get_logger(__name__)

# Takes an answer: what it was not asked for is unset.
OnAnswer: TypeAlias = Callable[[EngineReport], None]
_Question: TypeAlias = Callable[[str, Registration], Awaitable[EngineReport]]

# Of either question, so that engines whose handshakes hang keep no version waiting.
AT_ONCE = 8
TIMEOUT_S = 5.0
TRIES = 5
# Doubled from try to try: an engine that is busy with its first requests has half a minute.
PAUSE_S = 2.0
# The metadata has some hundred bytes a layer. Unpacked, it may take fifty times its size.
_HANDSHAKE_BYTES = 2**20
_VERSION_BYTES = 4096
_FAILURES = (OSError, ValueError, zmq.ZMQError, aiohttp.ClientError)


class EngineProbe:
    """Who was asked, and the questions that are under way."""

    def __init__(self, on_answer: OnAnswer) -> None:
        self._on_answer = on_answer
        self._context = zmq.asyncio.Context()
        self._session = aiohttp.ClientSession(
            cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
        )
        # Each with its turns.
        self._questions: tuple[tuple[_Question, asyncio.Semaphore], ...] = (
            (self._version, asyncio.Semaphore(AT_ONCE)),
            (self._model, asyncio.Semaphore(AT_ONCE)),
        )
        self._asked: dict[str, asyncio.Future[list[None]]] = {}

    def follow(self, engines: Mapping[str, Registration], there: Collection[str]) -> None:
        """Ask engines that serve and were not asked yet; forget those that are not there."""
        for uid in self._asked.keys() - there:
            self._asked.pop(uid).cancel()
        for uid in engines.keys() - self._asked.keys():
            self._asked[uid] = asyncio.gather(
                *(self._ask(*question, uid, engines[uid]) for question in self._questions)
            )

    async def close(self) -> None:
        """Leave what is under way."""
        for asking in self._asked.values():
            asking.cancel()
        await asyncio.gather(*self._asked.values(), return_exceptions=True)
        await self._session.close()
        self._context.term()

    async def _ask(
        self, question: _Question, turns: asyncio.Semaphore, uid: str, engine: Registration
    ) -> None:
        for tries in range(TRIES):
            if tries:
                await asyncio.sleep(PAUSE_S * 2 ** (tries - 1))
            try:
                async with turns, asyncio.timeout(TIMEOUT_S):
                    answer = await question(uid, engine)
            except _FAILURES as error:
                where = engine["http_address"]
                log.info("engine not asked", pod_uid=uid, http=where, error=repr(error))
            else:
                self._on_answer(answer)
                return

    async def _version(self, uid: str, engine: Registration) -> EngineReport:
        url = f"http://{engine['http_address']}{VERSION_PATH}"
        async with self._session.get(url, allow_redirects=False) as answer:
            if answer.status != 200:
                raise ValueError(f"HTTP status {answer.status}")
            body = await _read(answer.content, _VERSION_BYTES)
        return EngineReport(pod_uid=uid, version=version_from_answer(body))

    async def _model(self, uid: str, engine: Registration) -> EngineReport:
        with self._context.socket(zmq.DEALER) as asking:
            asking.setsockopt(zmq.LINGER, 0)
            asking.setsockopt(zmq.MAXMSGSIZE, _HANDSHAKE_BYTES)
            asking.setsockopt(zmq.RCVHWM, 1)
            asking.connect(f"tcp://{handshake_address(engine)}")
            await asking.send(HANDSHAKE_REQUEST)
            frames = await asking.recv_multipart()
        return EngineReport(pod_uid=uid, **asdict(from_handshake(frames[-1], engine["tp_size"])))


async def _read(content: aiohttp.StreamReader, most: int) -> bytes:
    """Read an answer's body to its end.

    Raises:
        ValueError: it is longer than that.
    """
    data = b""
    while chunk := await content.read(most + 1 - len(data)):
        data += chunk
        if len(data) > most:
            raise ValueError(f"an answer of more than {most} bytes")
    return data

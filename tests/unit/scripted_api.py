"""An API server on loopback that answers as told, in order, and remembers what it was asked."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio import client as official
from moriio_operator.kube.client import CallObserver, Kube, WriteCheck

from unit.samples import Json

# How a stream goes on after its last line.
End: TypeAlias = Literal["ends", "breaks", "stays"]


@dataclass(frozen=True)
class Call:
    """What was asked."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass(frozen=True)
class Answer:
    """One whole answer."""

    body: Any
    status: int = 200


@dataclass(frozen=True)
class Stream:
    """A watch: pieces of bytes as they go out, and how it goes on then."""

    pieces: Sequence[bytes]
    end: End = "stays"


@dataclass
class ScriptedApi:
    """The server. A call for which no answer is left waits until one is added."""

    answers: deque[Answer | Stream] = field(default_factory=deque)
    calls: list[Call] = field(default_factory=list)
    _more: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, *answers: Answer | Stream) -> None:
        """Add answers for the calls to come."""
        self.answers.extend(answers)
        self._more.set()

    async def _next(self) -> Answer | Stream:
        while not self.answers:
            self._more.clear()
            await self._more.wait()
        return self.answers.popleft()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Remember the call and answer it."""
        text = await request.text()
        self.calls.append(
            Call(
                request.method,
                request.path,
                dict(request.query),
                dict(request.headers),
                json.loads(text) if text else None,
            )
        )
        answer = await self._next()
        if isinstance(answer, Stream):
            return await self._stream(request, answer)
        if isinstance(answer.body, str):
            return web.Response(status=answer.status, text=answer.body)
        return web.json_response(answer.body, status=answer.status)

    async def _stream(self, request: web.Request, stream: Stream) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        for piece in stream.pieces:
            await response.write(piece)
        if stream.end == "breaks" and request.transport is not None:
            request.transport.abort()
        elif stream.end == "stays":
            await asyncio.Event().wait()
        return response


def line(kind: str, obj: Json) -> bytes:
    """A watch event on the wire."""
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def error(status: int, reason: str, message: str = "no") -> Answer:
    """An error as the API server words it."""
    body = {"kind": "Status", "status": "Failure", "reason": reason, "message": message}
    return Answer({**body, "code": status}, status)


def page(items: list[Json], version: str = "10", *, more: str = "") -> Answer:
    """A page of a list."""
    metadata = {"resourceVersion": version, **({"continue": more} if more else {})}
    return Answer({"kind": "List", "metadata": metadata, "items": items})


@asynccontextmanager
async def serving(
    api: ScriptedApi, observe: CallObserver | None = None, check: WriteCheck = lambda: None
) -> AsyncIterator[Kube]:
    """Serve, and give a client of it."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", api.handle)
    server = TestServer(app)
    await server.start_server(shutdown_timeout=0)
    client = official.ApiClient(official.Configuration(host=str(server.make_url("")).rstrip("/")))
    kube = Kube(client, observe or (lambda *_: None), check)
    try:
        yield kube
    finally:
        await kube.close()
        await server.close()

"""A proxy before the API server that records what the operator asks, and breaks it on demand.

The operator speaks plain HTTP to it on loopback, by a kubeconfig of its own; the proxy speaks to
the API server with the credentials that it was given. Watches go through line by line. All runs in
the event loop of the test, so a hook may look at anything and nothing happens beside it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeAlias

import aiohttp
from aiohttp import web
from yarl import URL

from stage import apicall
from stage.api import Api
from stage.apicall import Call, Exchange, Refusal


class CutError(Exception):
    """Raised by a hook: the connection breaks, and no answer comes."""


# How often a watch that says nothing is looked at: is its client still there?
_LOOK_S = 0.05


@dataclass(eq=False, slots=True)
class Stream:
    """A running watch."""

    resource: str
    lines: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue)
    deaf: bool = False


# Asked before a request goes on; it may wait, answer in the server's place, or raise CutError.
Before: TypeAlias = Callable[[Call], Awaitable[Refusal | None]]
# Told of the server's answer to a write before the operator is; it may wait or raise CutError.
After: TypeAlias = Callable[[Call, int], Awaitable[None]]


async def _go_on(_call: Call) -> Refusal | None:
    return None


async def _pass_on(_call: Call, _status: int) -> None:
    return None


class FaultProxy:
    """One proxy; each operator of a test has its own."""

    def __init__(self, upstream: Api) -> None:
        self._upstream = upstream
        self._streams: set[Stream] = set()
        self._runner: web.ServerRunner | None = None
        self._site: web.TCPSite | None = None
        self._watch_refusals: list[tuple[str, Refusal]] = []
        self._asking = 0
        self._quiet_since = 0.0
        self.port = 0
        self.before: Before = _go_on
        self.after: After = _pass_on
        # All that was asked, at the time of asking, watches included.
        self.calls: list[Call] = []
        # All that came to an end, watches not included.
        self.exchanges: list[Exchange] = []
        # Kinds (plural) whose deletions no watch tells.
        self.hides_deletions: set[str] = set()
        # How many events faults have kept back.
        self.swallowed = 0

    @classmethod
    @asynccontextmanager
    async def running(cls, kubeconfig: Path) -> AsyncIterator[Self]:
        """Serve before the API server of a kubeconfig, with its credentials."""
        async with Api.connected(kubeconfig) as upstream:
            proxy = cls(upstream)
            server = web.Server(proxy._handle)
            # Time for handlers to see that their clients are gone; to cancel one that connects
            # leaks its socket.
            proxy._runner = web.ServerRunner(server, access_log=None, shutdown_timeout=2)
            await proxy._runner.setup()
            await proxy._listen()
            try:
                yield proxy
            finally:
                await proxy._runner.cleanup()

    def write_kubeconfig(self, path: Path) -> Path:
        """Write the kubeconfig that leads to this proxy; JSON is YAML, too."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "proxy",
            "clusters": [{"name": "proxy", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
            "users": [{"name": "proxy", "user": {}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
        }
        path.write_text(json.dumps(config))
        return path

    # What the operator did.

    @property
    def writes(self) -> list[Exchange]:
        """The writes that came to an end; those of leader election are no writes of a pass."""
        return [e for e in self.exchanges if e.call.writes and e.call.resource != "leases"]

    @property
    def idle_s(self) -> float:
        """For how long nothing was asked; watches and leader election do not count."""
        return 0.0 if self._asking else asyncio.get_running_loop().time() - self._quiet_since

    def watches(self, resource: str) -> int:
        """Count the running watches of a kind."""
        return sum(1 for stream in self._streams if stream.resource == resource)

    # Faults.

    def refuse_watches(self, resource: str, refusal: Refusal, times: int = 1) -> None:
        """Answer the next watches of a kind with an error."""
        self._watch_refusals += [(resource, refusal)] * times

    def end_watches(self, resource: str, error: Refusal | None = None) -> None:
        """End the running watches of a kind, as the server does now and then, or with an ERROR."""
        for stream in self._of(resource):
            if error is not None:
                stream.lines.put_nowait(_line("ERROR", error.body()))
            stream.lines.put_nowait(b"")

    def silence(self, resource: str) -> None:
        """Let nothing more come through the running watches of a kind: they stay open, and dead."""
        for stream in self._of(resource):
            stream.deaf = True

    @asynccontextmanager
    async def refusing(self) -> AsyncIterator[None]:
        """Break all connections and refuse new ones."""
        assert self._runner is not None
        assert self._runner.server is not None
        assert self._site is not None
        await self._site.stop()
        for connection in self._runner.server.connections:
            if connection.transport is not None:
                connection.transport.abort()
        try:
            yield
        finally:
            await self._listen()

    async def _listen(self) -> None:
        assert self._runner is not None
        self._site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await self._site.start()
        self.port = int(self._runner.addresses[0][1])

    def _of(self, resource: str) -> list[Stream]:
        return [stream for stream in self._streams if stream.resource == resource]

    # The way of a request.

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        data = await request.read()
        call = apicall.read(request.method, request.path, request.query, data)
        self.calls.append(call)
        try:
            if call.verb == "watch":
                return await self._watch(request, call)
            return await self._relay(request, call, data)
        except (CutError, aiohttp.ClientError):
            # The second: the API server itself does not answer.
            if request.transport is not None:
                request.transport.abort()
            return web.Response()

    async def _relay(self, request: web.BaseRequest, call: Call, data: bytes) -> web.Response:
        counts = call.resource != "leases"
        self._asking += counts
        began, status, answer = asyncio.get_running_loop().time(), 0, b""
        try:
            refusal = await self.before(call)
            if refusal is not None:
                return web.json_response(refusal.body(), status=refusal.status)
            async with self._ask(request, data) as response:
                status, answer = response.status, await response.read()
            if call.writes:
                await self.after(call, status)
            return web.Response(
                body=answer, status=status, headers={"Content-Type": response.content_type}
            )
        finally:
            now = asyncio.get_running_loop().time()
            self.exchanges.append(Exchange(call, status, _parsed(answer), began, now))
            self._asking -= counts
            if counts:
                self._quiet_since = now

    async def _watch(self, request: web.BaseRequest, call: Call) -> web.StreamResponse:
        for planned in self._watch_refusals:
            if planned[0] == call.resource:
                self._watch_refusals.remove(planned)
                return web.json_response(planned[1].body(), status=planned[1].status)
        async with self._ask(request, b"") as upstream:
            response = web.StreamResponse(
                status=upstream.status, headers={"Content-Type": upstream.content_type}
            )
            response.enable_chunked_encoding()
            await response.prepare(request)
            stream = Stream(call.resource)
            pump = asyncio.create_task(self._pump(upstream.content, stream))
            self._streams.add(stream)
            try:
                while line := await self._next(request, stream):
                    await response.write(line)
            except ConnectionError:
                pass  # the client left while it was told something
            finally:
                self._streams.discard(stream)
                pump.cancel()
                await asyncio.gather(pump, return_exceptions=True)
                # A TLS connection that says goodbye outlives its session, and the test's loop.
                if upstream.connection is not None and upstream.connection.transport is not None:
                    upstream.connection.transport.abort()
        return response

    async def _next(self, request: web.BaseRequest, stream: Stream) -> bytes:
        """Give the next line; none when the client is gone, though the server sends nothing."""
        while request.transport is not None and not request.transport.is_closing():
            try:
                return await asyncio.wait_for(stream.lines.get(), _LOOK_S)
            except TimeoutError:
                continue
        return b""

    async def _pump(self, content: aiohttp.StreamReader, stream: Stream) -> None:
        try:
            while line := await content.readline():
                if stream.deaf or self._hides(stream, line):
                    self.swallowed += 1
                else:
                    stream.lines.put_nowait(line)
        finally:
            if not stream.deaf:
                stream.lines.put_nowait(b"")

    def _hides(self, stream: Stream, line: bytes) -> bool:
        return stream.resource in self.hides_deletions and json.loads(line)["type"] == "DELETED"

    @asynccontextmanager
    async def _ask(
        self, request: web.BaseRequest, data: bytes
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        kept = ("Accept", "Content-Type")
        async with self._upstream.session.request(
            request.method,
            # As it came: an encoding of its own may mean something else.
            URL(self._upstream.server + request.raw_path, encoded=True),
            data=data or None,
            headers={name: request.headers[name] for name in kept if name in request.headers},
            # A watch takes as long as it takes; everything else the operator itself bounds.
            timeout=aiohttp.ClientTimeout(total=None),
        ) as response:
            yield response


def _line(kind: str, obj: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return None

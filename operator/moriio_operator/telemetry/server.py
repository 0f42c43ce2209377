"""The health and metrics server: /healthz, /readyz, /metrics on one port."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

# Gives None when all is well, else the reason why not.
Check = Callable[[], str | None]


@asynccontextmanager
async def serve(
    port: int, registry: CollectorRegistry, *, healthy: Check, ready: Check
) -> AsyncIterator[None]:
    """Serve until the block ends.

    Raises:
        OSError: the port is taken.
    """

    async def health(_: web.Request) -> web.Response:
        return _answer(healthy())

    async def readiness(_: web.Request) -> web.Response:
        return _answer(ready())

    async def metrics(_: web.Request) -> web.Response:
        headers = {"Content-Type": CONTENT_TYPE_LATEST}
        return web.Response(body=generate_latest(registry), headers=headers)

    app = web.Application()
    app.add_routes(
        [
            web.get("/healthz", health),
            web.get("/readyz", readiness),
            web.get("/metrics", metrics),
        ]
    )
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        # Probes and scrapers come from outside the pod.
        await web.TCPSite(runner, "0.0.0.0", port).start()  # noqa: S104
        yield
    finally:
        await runner.cleanup()


def _answer(trouble: str | None) -> web.Response:
    return web.Response(status=200 if trouble is None else 503, text=trouble or "ok")

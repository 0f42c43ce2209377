"""The operator's process: connect, serve health, start workers, watch.

Any part that ends, ends the process: a Kubernetes restart is cheaper than a zombie that watches
nothing.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any

import structlog
from prometheus_client import CollectorRegistry

from moriio_operator import __version__
from moriio_operator.build.children import Installation
from moriio_operator.control.loop import Loop, resync
from moriio_operator.control.queue import WorkQueue
from moriio_operator.control.reconcile import Reconciler
from moriio_operator.kube.client import Kube
from moriio_operator.kube.kinds import PDDEPLOYMENT
from moriio_operator.runtime import source
from moriio_operator.runtime.settings import Settings
from moriio_operator.telemetry.metrics import OperatorMetrics
from moriio_operator.telemetry.server import serve

# The chart installs the CRD and this process at once.
_CRD_RETRY_S = 1.0

log = structlog.get_logger(__name__)


async def run(settings: Settings) -> None:
    """Run until told to stop (SIGTERM), or until a part of it ends."""
    queue, registry = WorkQueue(), CollectorRegistry()
    metrics = OperatorMetrics(registry, lambda: len(queue))
    kube = await Kube.connect(os.environ.get("KUBECONFIG"), metrics.observe_call)
    watching = asyncio.Event()
    reconciler = Reconciler(
        kube=kube,
        policy=settings.policy,
        installation=Installation(settings.registrar_image, settings.registrar_cluster_role),
        ports=settings.ports.range(),
        now=lambda: datetime.now(UTC),
    )
    loop = Loop(queue, reconciler, metrics.observe_pass)

    def ready() -> str | None:
        return None if watching.is_set() else "the CRD is not there yet, or not watched yet"

    log.info("starting", version=__version__, namespaces=settings.namespaces or "all")
    try:
        async with serve(settings.http_port, registry, healthy=lambda: None, ready=ready):
            await _until_one_ends(
                loop.run(settings.workers),
                resync(kube, queue, settings.namespaces, settings.resync_seconds),
                _watch(kube, queue, settings.namespaces, watching),
            )
    finally:
        await kube.close()
    log.info("stopped")


async def _watch(
    kube: Kube, queue: WorkQueue, namespaces: list[str], watching: asyncio.Event
) -> None:
    """Watch once the API server serves our kind: kopf would never notice that it came later."""
    # kopf takes the signal over once it runs; as the first process of a container we would not end.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, _end, asyncio.current_task())
    while not await kube.serves(PDDEPLOYMENT):
        log.warning("waiting for the CRD", kind=PDDEPLOYMENT.kind)
        await asyncio.sleep(_CRD_RETRY_S)
    await source.run(queue.add, namespaces, watching)


def _end(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()


async def _until_one_ends(*parts: Coroutine[Any, Any, None]) -> None:
    """Run parts side by side; when one ends, end the others and raise what it raised."""
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            if not task.cancelled():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

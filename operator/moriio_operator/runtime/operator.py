"""The operator's process: connect, serve health, wait to lead, start workers, watch.

Any part that ends, ends the process: a Kubernetes restart is cheaper than a zombie that watches
nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import uuid
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any

import structlog
from prometheus_client import CollectorRegistry

from moriio_operator import __version__
from moriio_operator.api.kinds import PDDEPLOYMENT, PDREPORT
from moriio_operator.build.children import Installation
from moriio_operator.control.child_cache import ChildCache
from moriio_operator.control.diagnosis import Diagnosis
from moriio_operator.control.loop import Loop
from moriio_operator.control.queue import WorkQueue
from moriio_operator.control.reconcile import Reconciler
from moriio_operator.control.resync import resync
from moriio_operator.kube.client import Kube
from moriio_operator.kube.errors import ApiError
from moriio_operator.kube.kinds import Kind
from moriio_operator.kube.lease import Elector
from moriio_operator.runtime import source
from moriio_operator.runtime.settings import Settings
from moriio_operator.telemetry.metrics import OperatorMetrics
from moriio_operator.telemetry.server import serve

# The chart installs the CRD and this process at once.
_CRD_RETRY_S = 1.0
# An admin who installs CRDs apart from the chart may have forgotten the younger one.
_REPORTS_CRD_S = 10.0

log = structlog.get_logger(__name__)


async def run(settings: Settings) -> None:
    """Stand by until the Lease is ours, then lead, until told to stop (SIGTERM).

    Raises:
        LeaseLostError: another replica may lead by now; this process must not go on.
    """
    stop, watching = asyncio.Event(), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    queue, cache, registry = WorkQueue(), ChildCache(), CollectorRegistry()
    metrics = OperatorMetrics(registry, lambda: len(queue))
    kubeconfig = os.environ.get("KUBECONFIG")
    # Connections of its own, so that no pass holds up a renewal.
    electoral = await Kube.connect(kubeconfig, metrics.observe_call)
    elector = Elector(electoral, settings.leader_election.candidacy(_identity()))
    metrics.leads(lambda: elector.leads)
    kube = await Kube.connect(kubeconfig, metrics.observe_call, elector.check)

    def ready() -> str | None:
        # A standby is ready to lead: a rolling update must not wait for it to.
        if watching.is_set() or elector.stands_by:
            return None
        return "the CRD is not there yet, or not watched yet"

    log.info("starting", version=__version__, namespaces=settings.namespaces or "all")
    try:
        async with serve(settings.http_port, registry, healthy=lambda: None, ready=ready):
            await _until_one_ends(stop.wait(), elector.acquire())
            if stop.is_set():
                return
            reconcilers = {PDDEPLOYMENT.kind: _reconciler(kube, queue, cache, settings)}
            loop = Loop(queue, reconcilers, metrics.observe_pass)
            await _until_one_ends(
                stop.wait(),
                _listen(stop, watching),
                elector.keep(),
                loop.run(settings.workers),
                resync(kube, queue, cache, settings.namespaces, settings.resync_seconds),
                _watch(kube, queue, cache, settings.namespaces, watching),
            )
    finally:
        asyncio.get_running_loop().set_exception_handler(_at_the_end)
        # Nothing writes any more, so another one may begin at once.
        await elector.release()
        await kube.close()
        await electoral.close()
        log.info("stopped")


def _at_the_end(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Take note of what fails while the loop is torn down, such as kopf's watches.

    They are generators, and one that is closed in the middle of a read raises an error of its own.
    """
    log.debug("failed while ending", error=repr(context.get("exception") or context["message"]))


async def _listen(stop: asyncio.Event, watching: asyncio.Event) -> None:
    """Take SIGTERM back from kopf, which takes it when it begins.

    Ended by the signal itself, kopf waits 5 s for tasks that it did not make, such as a scraper's
    connection that is kept alive; cancelled, it ends at once.
    """
    await watching.wait()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await stop.wait()


def _identity() -> str:
    """Name this process: the pod, and one of its containers' lives."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


def _reconciler(kube: Kube, queue: WorkQueue, cache: ChildCache, settings: Settings) -> Reconciler:
    role = settings.registrar_role
    return Reconciler(
        kube=kube,
        policy=settings.policy,
        installation=Installation(settings.registrar_image, role.kind, role.name),
        ports=settings.ports.range(),
        now=lambda: datetime.now(UTC),
        diagnosis=Diagnosis(kube, queue.add),
        namespaces=settings.namespaces,
        cache=cache,
    )


async def _watch(
    kube: Kube,
    queue: WorkQueue,
    cache: ChildCache,
    namespaces: list[str],
    watching: asyncio.Event,
) -> None:
    """Watch once the API server serves our kinds: kopf would never notice that one came later.

    Nothing depends on reports. Where their definition is not installed, the resync alone looks for
    them until this process starts again.
    """
    await _until_served(kube, PDDEPLOYMENT)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_REPORTS_CRD_S):
            await _until_served(kube, PDREPORT)
    await source.run(queue.add, cache.invalidate, namespaces, watching)


async def _until_served(kube: Kube, kind: Kind) -> None:
    while not await _serves(kube, kind):
        log.warning("waiting for the CRD", kind=kind.kind)
        await asyncio.sleep(_CRD_RETRY_S)


async def _serves(kube: Kube, kind: Kind) -> bool:
    try:
        return await kube.serves(kind)
    except ApiError as error:
        log.warning("discovery failed", error=str(error))
        return False


async def _until_one_ends(*parts: Coroutine[Any, Any, object]) -> None:
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

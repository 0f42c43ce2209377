"""The registrar: registers engines that serve with the router of its own pod, each second.

It replaces vLLM's heartbeat, which reaches one router only, begins before the engine can serve
and cannot be paused for a drain. EndpointSlices come in, registrations go out; nothing is stored.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from moriio_operator.facts.terms import Mode
from moriio_operator.kube.client import Kube
from moriio_operator.kube.kinds import ENDPOINT_SLICE
from moriio_operator.kube.reflector import Reflector
from moriio_operator.node.endpoints import RoleService, selector, serving
from moriio_operator.node.handshake_probe import Inquiry
from moriio_operator.node.registration_socket import Beacon
from moriio_operator.stack.vllm_moriio.description import DESCRIBED, Description, words
from moriio_operator.stack.vllm_moriio.registration import Registration
from moriio_operator.telemetry.server import serve

log = structlog.get_logger(__name__)

# The router forgets an engine 4 to 5 s after its last registration.
BEAT_S = 1.0


class Metrics:
    """What an admin watches of a registrar."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.engines = Gauge(
            "moriio_registrar_engines",
            "Engines that are registered with the router.",
            ["role"],
            registry=registry,
        )
        self.sent = Counter(
            "moriio_registrar_registrations",
            "Registrations sent to the router.",
            registry=registry,
        )
        self.connected = Gauge(
            "moriio_registrar_connected",
            "1 while the registration socket is connected.",
            registry=registry,
        )


async def run(mode: Mode, router: str, port: int, services: Mapping[str, RoleService]) -> None:
    """Register until told to stop (SIGTERM)."""
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    kube = await Kube.connect(os.environ.get("KUBECONFIG"))
    slices = Reflector(kube, ENDPOINT_SLICE, os.environ["POD_NAMESPACE"], labels=selector(services))
    beacon, inquiry = Beacon(router), Inquiry(_described)

    def ready() -> str | None:
        if not slices.listed:
            return "the EndpointSlices are not listed yet"
        return None if beacon.connected else f"not connected to the router at {router}"

    try:
        async with serve(port, registry, healthy=lambda: None, ready=ready):
            await _until_stopped(slices, beacon, inquiry, mode, services, metrics)
    finally:
        await inquiry.close()
        beacon.close()
        await kube.close()


async def _until_stopped(
    slices: Reflector,
    beacon: Beacon,
    inquiry: Inquiry,
    mode: Mode,
    services: Mapping[str, RoleService],
    metrics: Metrics,
) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    parts = [
        asyncio.create_task(part)
        for part in (
            slices.run(),
            beacon.watch(),
            _beat(slices, beacon, inquiry, mode, services, metrics),
            stop.wait(),
        )
    ]
    done, pending = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
    for part in pending:
        part.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    for part in done:
        part.result()


async def _beat(
    slices: Reflector,
    beacon: Beacon,
    inquiry: Inquiry,
    mode: Mode,
    services: Mapping[str, RoleService],
    metrics: Metrics,
) -> None:
    known: dict[str, Registration] = {}
    while True:
        engines = serving(slices.objects(), services, mode)
        _tell(known, engines)
        inquiry.about(engines)
        known = engines
        metrics.sent.inc(await beacon.send(list(engines.values())))
        metrics.connected.set(beacon.connected)
        for role in ("P", "D"):
            count = sum(1 for engine in engines.values() if engine["type"] == role)
            metrics.engines.labels(role).set(count)
        await asyncio.sleep(BEAT_S)


def _described(uid: str, told: Description) -> None:
    """Log what an engine told of its model: the operator reads it here."""
    log.info(DESCRIBED, pod_uid=uid, **words(told))


def _tell(before: dict[str, Registration], now: dict[str, Registration]) -> None:
    for uid in now.keys() - before.keys():
        log.info("engine serves", pod_uid=uid, **_brief(now[uid]))
    for uid in before.keys() - now.keys():
        log.info("engine leaves", pod_uid=uid, **_brief(before[uid]))


def _brief(engine: Registration) -> dict[str, str]:
    return {"role": engine["type"], "http": engine["http_address"]}

"""The registrar: registers engines that serve with the router of its own pod, each second.

It replaces vLLM's heartbeat, which reaches one router only, begins before the engine can serve
and cannot be paused for a drain. EndpointSlices come in, registrations go out. Beside that it asks
each engine what it is and what it loaded, and writes the answers into this pod's PDReport.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from moriio_operator.facts.terms import Mode
from moriio_operator.kube.client import Kube
from moriio_operator.kube.kinds import ENDPOINT_SLICE
from moriio_operator.kube.reflector import Reflector
from moriio_operator.node.endpoints import RoleService, present, selector, serving
from moriio_operator.node.engine_probe import EngineProbe
from moriio_operator.node.registration_socket import RegistrationSocket
from moriio_operator.node.report_writer import ReportWriter, Writer
from moriio_operator.stack.registration import Registration
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


async def run(
    mode: Mode, router: str, port: int, services: Mapping[str, RoleService], deployment: str | None
) -> None:
    """Register until stopped (SIGTERM).

    Without a deployment, or without the pod's name and uid in the environment, nothing is reported:
    a router pod of an older version lacks them.
    """
    registry = CollectorRegistry()
    kube = await Kube.connect(os.environ.get("KUBECONFIG"))
    namespace = os.environ["POD_NAMESPACE"]
    slices = Reflector(kube, ENDPOINT_SLICE, namespace, labels=selector(services))
    socket = RegistrationSocket(router)
    reporting = _reporting(kube, namespace, deployment)
    registrar = _Registrar(mode, services, slices, socket, reporting, Metrics(registry))

    def ready() -> str | None:
        if not slices.listed:
            return "the EndpointSlices are not listed yet"
        return None if socket.connected else f"not connected to the router at {router}"

    try:
        async with serve(port, registry, healthy=lambda: None, ready=ready):
            await registrar.run()
    finally:
        if reporting is not None:
            await reporting.probe.close()
        socket.close()
        await kube.close()


@dataclass(frozen=True, slots=True)
class _Reporting:
    """Who asks the engines, and who writes what they answer."""

    probe: EngineProbe
    writer: ReportWriter


def _reporting(kube: Kube, namespace: str, deployment: str | None) -> _Reporting | None:
    pod, uid = os.environ.get("POD_NAME"), os.environ.get("POD_UID")
    if not (deployment and pod and uid):
        log.info("nothing is reported: the pod's template is of an older version")
        return None
    writer = ReportWriter(kube, Writer(namespace, pod, uid, deployment), lambda: datetime.now(UTC))
    return _Reporting(EngineProbe(writer.put), writer)


@dataclass(frozen=True, slots=True)
class _Registrar:
    """The parts that run side by side; the end of any of them ends all."""

    mode: Mode
    services: Mapping[str, RoleService]
    slices: Reflector
    socket: RegistrationSocket
    reporting: _Reporting | None
    metrics: Metrics

    async def run(self) -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        coroutines = [self.slices.run(), self.socket.watch(), self._beat(), stop.wait()]
        if self.reporting is not None:
            coroutines.append(self.reporting.writer.run())
        parts = [asyncio.create_task(part) for part in coroutines]
        done, pending = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        for part in pending:
            part.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        for part in done:
            part.result()

    async def _beat(self) -> None:
        known: dict[str, Registration] = {}
        while True:
            engines = serving(self.slices.objects(), self.services, self.mode)
            _log_changes(known, engines)
            known = engines
            sent = await self.socket.send(list(engines.values()))
            self._report(engines)
            self._count(engines, sent)
            await asyncio.sleep(BEAT_S)

    def _report(self, engines: Mapping[str, Registration]) -> None:
        """Have engines asked that were not; what is known of those that are gone is dropped."""
        if self.reporting is None or not self.slices.listed:
            return
        there = present(self.slices.objects())
        self.reporting.probe.follow(engines, there)
        self.reporting.writer.keep(there)

    def _count(self, engines: Mapping[str, Registration], sent: int) -> None:
        self.metrics.sent.inc(sent)
        self.metrics.connected.set(self.socket.connected)
        for role in ("P", "D"):
            count = sum(1 for engine in engines.values() if engine["type"] == role)
            self.metrics.engines.labels(role).set(count)


def _log_changes(before: dict[str, Registration], now: dict[str, Registration]) -> None:
    for uid in now.keys() - before.keys():
        log.info("engine serves", pod_uid=uid, **_brief(now[uid]))
    for uid in before.keys() - now.keys():
        log.info("engine leaves", pod_uid=uid, **_brief(before[uid]))


def _brief(engine: Registration) -> dict[str, str]:
    return {"role": engine["type"], "http": engine["http_address"]}

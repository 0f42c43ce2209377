"""The registrar whole: slices from a server on loopback in, registrations to a ROUTER out."""
# ruff: noqa: ARG002 - the signatures are the real client's

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgpack
import pytest
import yaml
import zmq
import zmq.asyncio
from moriio_operator.facts.terms import Attention, Mode, Role
from moriio_operator.kube.client import Kube
from moriio_operator.kube.errors import ForbiddenError
from moriio_operator.kube.kinds import ENDPOINT_SLICE, Kind
from moriio_operator.kube.objects import Object
from moriio_operator.node import registrar, report_writer
from moriio_operator.node.endpoints import SERVICE_LABEL, RoleService
from prometheus_client.parser import text_string_to_metric_families

from unit.memory_kube import MemoryKube
from unit.samples import Json
from unit.scripted_api import Answer, ScriptedApi, Stream, line, page, serving
from unit.test_node_engine_probe import engine
from unit.test_stack_description import metadata
from unit.waiting import PATIENCE_S, until

SERVICES = {"llm-p": RoleService(Role.PREFILL, 1), "llm-d": RoleService(Role.DECODE, 1)}
PORTS = (("http", 20_000), ("handshake", 20_002), ("notify", 20_003))


def piece(service: str, *, serves: bool = True) -> Json:
    return {
        "metadata": {
            "name": service,
            "resourceVersion": "11",
            "labels": {SERVICE_LABEL: service},
        },
        "addressType": "IPv4",
        "ports": [{"name": name, "port": port} for name, port in PORTS],
        "endpoints": [
            {
                "addresses": [f"127.0.0.{len(service)}"],
                "conditions": {"serving": serves, "terminating": not serves},
                "targetRef": {"uid": f"uid-{service}"},
            }
        ],
    }


class Registrar:
    """A registrar that runs, its router's end, and its own small server."""

    def __init__(self, router: zmq.asyncio.Socket, port: int, task: asyncio.Task[None]) -> None:
        self.router = router
        self.task = task
        self._port = port

    async def heard(self, *types: str) -> None:
        """Wait until these roles are heard of, and no other, in one beat's time."""
        async with asyncio.timeout(PATIENCE_S):
            while await self._beat() != set(types):
                self._still_runs()

    async def next(self, count: int) -> list[str]:
        """The roles of the next messages."""
        async with asyncio.timeout(PATIENCE_S):
            frames = [(await self.router.recv_multipart())[1] for _ in range(count)]
        return [str(msgpack.unpackb(frame)["type"]) for frame in frames]

    async def _beat(self) -> set[str]:
        heard = set()
        while await self.router.poll(150):
            _, frame = await self.router.recv_multipart()
            kind = str(msgpack.unpackb(frame)["type"])
            if kind in heard:
                break
            heard.add(kind)
        return heard

    def _still_runs(self) -> None:
        """Fail at once with what ended it, instead of waiting for what will not come."""
        if self.task.done():
            self.task.result()
            pytest.fail("the registrar ended")

    async def asked(self, path: str) -> tuple[int, str]:
        """Ask its server; it may not listen yet."""
        async with asyncio.timeout(PATIENCE_S), aiohttp.ClientSession() as session:
            while True:
                try:
                    async with session.get(f"http://127.0.0.1:{self._port}{path}") as answer:
                        return answer.status, await answer.text()
                except aiohttp.ClientConnectionError:
                    self._still_runs()
                    await asyncio.sleep(0.01)


@asynccontextmanager
async def running(
    api: ScriptedApi,
    ports: list[int],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    router_listens: bool = True,
) -> AsyncIterator[Registrar]:
    monkeypatch.setattr(registrar, "BEAT_S", 0.05)
    monkeypatch.setenv("POD_NAMESPACE", "team")
    monkeypatch.setenv("KUBECONFIG", str(folder / "kubeconfig"))
    context = zmq.asyncio.Context()
    router = context.socket(zmq.ROUTER)
    if router_listens:
        router.bind(f"tcp://127.0.0.1:{ports[0]}")
    async with serving(api) as kube:
        named = {"name": "c", "cluster": {"server": kube._api.configuration.host}}
        config = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
            "clusters": [named],
            "users": [{"name": "c", "user": {}}],
        }
        (folder / "kubeconfig").write_text(yaml.safe_dump(config))
        address = f"127.0.0.1:{ports[0]}"
        task = asyncio.create_task(registrar.run(Mode.READ, address, ports[1], SERVICES, None))
        try:
            yield Registrar(router, ports[1], task)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            router.close(0)
            context.term()


@pytest.fixture
def ports(unused_tcp_port_factory: pytest.FixtureRequest) -> list[int]:
    """Two free ports: the router's registration socket, the registrar's own server."""
    factory: object = unused_tcp_port_factory
    assert callable(factory)
    return [factory(), factory()]


async def test_engines_that_serve_are_registered_again_and_again_and_ones_that_leave_are_not(
    ports: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = ScriptedApi()
    first = Stream([line("ADDED", piece("llm-d"))], "ends")
    api.add(page([piece("llm-p")]), first)
    async with running(api, ports, tmp_path, monkeypatch) as made:
        await made.heard("P", "D")
        await made.heard("P", "D")
        api.add(Stream([line("MODIFIED", piece("llm-d", serves=False))]))
        await made.heard("P")
        assert await made.next(4) == ["P"] * 4


async def test_it_is_ready_when_it_has_a_list_and_a_router(
    ports: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = ScriptedApi()
    async with running(api, ports, tmp_path, monkeypatch) as made:
        assert await made.asked("/healthz") == (200, "ok")
        assert await made.asked("/readyz") == (503, "the EndpointSlices are not listed yet")
        api.add(page([piece("llm-p")]))
        await made.heard("P")
        assert await made.asked("/readyz") == (200, "ok")


async def test_without_a_router_it_says_so(
    ports: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = ScriptedApi()
    api.add(page([]), Answer({}))
    async with running(api, ports, tmp_path, monkeypatch, router_listens=False) as made:
        async with asyncio.timeout(PATIENCE_S):
            while "not listed" in (answer := await made.asked("/readyz"))[1]:
                pass
        assert answer == (503, f"not connected to the router at 127.0.0.1:{ports[0]}")


async def test_its_metrics_count_what_it_registered(
    ports: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = ScriptedApi()
    api.add(page([piece("llm-p"), piece("llm-d")]))
    async with running(api, ports, tmp_path, monkeypatch) as made:
        await made.heard("P", "D")
        await made.heard("P", "D")
        _, text = await made.asked("/metrics")
    values = {
        (sample.name, sample.labels.get("role")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert values["moriio_registrar_engines", "P"] == 1
    assert values["moriio_registrar_engines", "D"] == 1
    assert values["moriio_registrar_connected", None] == 1
    assert values["moriio_registrar_registrations_total", None] >= 2


async def test_it_ends_when_it_is_told_to(
    ports: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = ScriptedApi()
    api.add(page([piece("llm-p")]))
    async with running(api, ports, tmp_path, monkeypatch) as made:
        await made.heard("P")
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(made.task, PATIENCE_S)


class Cluster(MemoryKube):
    """An API with one slice, and with reports."""

    def __init__(self, only: Json) -> None:
        super().__init__()
        self.only = only

    async def list(
        self, kind: Kind, namespace: str | None = None, selector: str = "", fields: str = ""
    ) -> tuple[list[Object], str]:
        assert kind == ENDPOINT_SLICE
        return [self.only], "1"

    async def watch(
        self, kind: Kind, namespace: str | None, selector: str, version: str, fields: str = ""
    ) -> AsyncIterator[tuple[str, Object]]:
        await asyncio.Event().wait()
        yield "never", {}

    async def close(self) -> None:
        """Nothing is open."""


@asynccontextmanager
async def reporting(
    kube: Cluster, ports: list[int], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[asyncio.Task[None]]:
    async def connect(_kubeconfig: str | None) -> Kube:
        return kube

    for name, value in (("NAMESPACE", "team"), ("NAME", "llm-router-x"), ("UID", "uid-router")):
        monkeypatch.setenv(f"POD_{name}", value)
    monkeypatch.setattr(Kube, "connect", connect)
    monkeypatch.setattr(registrar, "BEAT_S", 0.02)
    monkeypatch.setattr(report_writer, "SETTLE_S", 0.2)
    address = f"127.0.0.1:{ports[0]}"
    task = asyncio.create_task(registrar.run(Mode.READ, address, ports[1], SERVICES, "llm"))
    try:
        yield task
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def slice_of(http: int, handshake: int) -> Json:
    made = piece("llm-p")
    numbers = {"http": http, "handshake": handshake, "notify": 1}
    made["ports"] = [{"name": name, "port": port} for name, port in numbers.items()]
    made["endpoints"][0]["addresses"] = ["127.0.0.1"]
    return made


async def test_what_engines_answer_is_in_the_report_of_its_pod(
    ports: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with engine() as asked:
        kube = Cluster(slice_of(asked.http, asked.port))
        async with reporting(kube, ports, monkeypatch):
            await asked.answer(metadata(), b"memory")
            await until(lambda: kube.of_kind("PDReport"))
    assert kube.one("PDReport", "llm-router-x")["engines"] == [
        {
            "podUID": "uid-llm-p",
            "version": "0.33.0+rocm72",
            "attention": Attention.GQA,
        }
    ]


async def test_a_report_that_is_refused_delays_no_beat(
    ports: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with engine() as asked:
        kube = Cluster(slice_of(asked.http, asked.port))
        refused: list[str] = []

        def refuse(verb: str, _obj: Object) -> ForbiddenError:
            refused.append(verb)
            return ForbiddenError(403, "Forbidden", "no right")

        kube.refuse = refuse
        context = zmq.asyncio.Context()
        router = context.socket(zmq.ROUTER)
        router.bind(f"tcp://127.0.0.1:{ports[0]}")
        try:
            async with reporting(kube, ports, monkeypatch), asyncio.timeout(PATIENCE_S):
                await until(lambda: refused)
                while await router.poll(0):
                    await router.recv_multipart()
                for _ in range(10):
                    await router.recv_multipart()
        finally:
            router.close(0)
            context.term()

"""The process lives and dies with its parts."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from moriio_operator.control.child_cache import ChildCache
from moriio_operator.control.queue import Key, WorkQueue
from moriio_operator.kube.client import Kube
from moriio_operator.kube.errors import ApiError
from moriio_operator.kube.kinds import Kind
from moriio_operator.kube.lease import Candidacy, Elector
from moriio_operator.runtime import operator as module
from moriio_operator.runtime.operator import _at_the_end, _listen, _until_one_ends, _watch
from moriio_operator.runtime.settings import Settings
from moriio_operator.telemetry.server import Check

from unit.memory_kube import MemoryKube
from unit.samples import SETTINGS


class Part:
    """A part of the process that runs until it is told to end."""

    def __init__(self) -> None:
        self.end = asyncio.Event()
        self.cancelled = False
        self.error: Exception | None = None

    async def run(self) -> None:
        try:
            await self.end.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        if self.error is not None:
            raise self.error


async def started(*parts: Part) -> asyncio.Task[None]:
    running = asyncio.create_task(_until_one_ends(*(part.run() for part in parts)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return running


async def test_when_one_part_ends_all_end() -> None:
    one, other = Part(), Part()
    running = await started(one, other)
    one.end.set()
    await asyncio.wait_for(running, 5)
    assert other.cancelled


async def test_what_one_part_raises_ends_the_process_with_it() -> None:
    one, other = Part(), Part()
    one.error = RuntimeError("watch lost")
    running = await started(one, other)
    one.end.set()
    with pytest.raises(RuntimeError, match="watch lost"):
        await asyncio.wait_for(running, 5)
    assert other.cancelled


async def test_a_process_that_is_cancelled_takes_its_parts_with_it() -> None:
    one, other = Part(), Part()
    running = await started(one, other)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 5)
    assert one.cancelled
    assert other.cancelled


class LateCrd(MemoryKube):
    """An API server whose CRDs come with the third question about them."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()

    async def serves(self, kind: Kind) -> bool:
        self.asked[kind.kind] += 1
        return self.asked[kind.kind] == 3


async def test_the_watch_begins_when_the_crds_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    kube, queue, watching = LateCrd(), WorkQueue(), asyncio.Event()

    async def watch(
        enqueue: object, _hear: object, namespaces: list[str], ready: asyncio.Event
    ) -> None:
        assert kube.asked == {"PDDeployment": 3, "PDReport": 3}
        assert namespaces == ["team"]
        assert callable(enqueue)
        enqueue(Key("team", "llm"))
        ready.set()

    monkeypatch.setattr(module, "_CRD_RETRY_S", 0)
    monkeypatch.setattr("moriio_operator.runtime.source.run", watch)
    await asyncio.wait_for(_watch(kube, queue, ChildCache(), ["team"], watching), 5)
    assert watching.is_set()
    assert await queue.get() == Key("team", "llm")


class NoReports(MemoryKube):
    """An API server of a cluster where one CRD alone is installed."""

    async def serves(self, kind: Kind) -> bool:
        return kind.kind == "PDDeployment"


async def test_a_crd_of_reports_that_does_not_come_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watched = asyncio.Event()

    async def watch(*_: object) -> None:
        watched.set()

    monkeypatch.setattr(module, "_CRD_RETRY_S", 0)
    monkeypatch.setattr(module, "_REPORTS_CRD_S", 0.05)
    monkeypatch.setattr("moriio_operator.runtime.source.run", watch)
    arguments = (NoReports(), WorkQueue(), ChildCache(), list[str](), asyncio.Event())
    await asyncio.wait_for(_watch(*arguments), 5)
    assert watched.is_set()


class NoCrd(MemoryKube):
    """An API server whose CRDs do not come until they are let."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()
        self.closed = False
        self.installed = False

    async def serves(self, kind: Kind) -> bool:
        assert kind.group == "moriio.dev"
        self.asked.set()
        return self.installed

    async def close(self) -> None:
        self.closed = True


@pytest.fixture
def harmless_sigterm() -> Iterator[None]:
    """SIGTERM, sent to ourselves, does not end the tests if nobody takes it."""
    before = signal.signal(signal.SIGTERM, lambda _number, _frame: None)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("harmless_sigterm")
async def test_sigterm_ends_a_process_that_waits_for_the_crd(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kube = NoCrd()
    monkeypatch.setattr(Kube, "connect", connects_to(kube))
    monkeypatch.setattr(module, "serve", serves_to([]))
    running = asyncio.create_task(module.run(Settings.model_validate(SETTINGS)))
    await asyncio.wait_for(kube.asked.wait(), 5)
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(running, 5)
    assert kube.closed
    assert kube.one("Lease", "moriio-operator")["spec"]["holderIdentity"] == ""


class FlakyDiscovery(LateCrd):
    """Its discovery fails at first."""

    async def serves(self, kind: Kind) -> bool:
        if not self.asked:
            self.asked[kind.kind] += 1
            raise ApiError(503, "Unavailable", "down")
        return await super().serves(kind)


async def test_discovery_that_fails_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    kube, watched = FlakyDiscovery(), asyncio.Event()

    async def watch(*_: object) -> None:
        watched.set()

    monkeypatch.setattr(module, "_CRD_RETRY_S", 0)
    monkeypatch.setattr("moriio_operator.runtime.source.run", watch)
    watching = asyncio.Event()
    await asyncio.wait_for(_watch(kube, WorkQueue(), ChildCache(), [], watching), 5)
    assert watched.is_set()


@pytest.mark.usefixtures("harmless_sigterm")
async def test_the_signal_is_taken_back_once_kopf_watches() -> None:
    stop, watching = asyncio.Event(), asyncio.Event()
    taken = asyncio.Event()
    listening = asyncio.create_task(_listen(stop, watching))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, taken.set)
    watching.set()
    await asyncio.sleep(0.01)
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(listening, 5)
    assert stop.is_set()
    assert not taken.is_set()


@pytest.mark.usefixtures("harmless_sigterm")
async def test_sigterm_ends_a_standby_without_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    kube = NoCrd()
    other = Elector(kube, Candidacy("moriio-system", "moriio-operator", "other", "tests"))
    await other.acquire()
    checks = list[Check]()
    monkeypatch.setattr(Kube, "connect", connects_to(kube))
    monkeypatch.setattr(module, "serve", serves_to(checks))
    running = asyncio.create_task(module.run(Settings.model_validate(SETTINGS)))
    async with asyncio.timeout(5):
        while not checks or checks[1]() is not None:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.001)
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(running, 5)
    assert kube.closed
    assert kube.one("Lease", "moriio-operator")["spec"]["holderIdentity"] == "other"


@pytest.mark.usefixtures("harmless_sigterm")
async def test_a_standby_that_is_cancelled_ends_as_told(monkeypatch: pytest.MonkeyPatch) -> None:
    kube = NoCrd()
    await Elector(kube, Candidacy("moriio-system", "moriio-operator", "other", "tests")).acquire()
    checks = list[Check]()
    monkeypatch.setattr(Kube, "connect", connects_to(kube))
    monkeypatch.setattr(module, "serve", serves_to(checks))
    running = asyncio.create_task(module.run(Settings.model_validate(SETTINGS)))
    async with asyncio.timeout(5):
        while not checks or checks[1]() is not None:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.001)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 5)


async def stubborn() -> AsyncIterator[int]:
    """A watch that fails when it is closed, as kopf's do in the middle of a read."""
    try:
        yield 1
    finally:
        raise RuntimeError("generator didn't stop after athrow()")


@pytest.mark.parametrize("told", [False, True], ids=["else it is an error", "it is not"])
def test_a_watch_that_fails_when_the_process_ends_is_no_error(
    caplog: pytest.LogCaptureFixture, *, told: bool
) -> None:
    open_watches = []

    async def main() -> None:
        watch = stubborn()
        await anext(watch)
        open_watches.append(watch)
        if told:
            asyncio.get_running_loop().set_exception_handler(_at_the_end)

    asyncio.run(main())
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert bool(errors) is not told


def connects_to(kube: Kube) -> Callable[..., Awaitable[Kube]]:
    """Give a stand-in for `Kube.connect`."""

    async def connect(*_: object) -> Kube:
        return kube

    return connect


def serves_to(checks: list[Check]) -> Callable[..., AbstractAsyncContextManager[None]]:
    """Give a stand-in for the health server, which keeps its checks."""

    @asynccontextmanager
    async def serve(
        _port: int, _registry: object, *, healthy: Check, ready: Check
    ) -> AsyncIterator[None]:
        checks.extend((healthy, ready))
        yield

    return serve


@pytest.mark.usefixtures("harmless_sigterm")
async def test_a_process_is_ready_once_it_watches_and_tells_why_it_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kube, checks = NoCrd(), list[Check]()
    watches, ends = asyncio.Event(), asyncio.Event()

    async def watch(
        _enqueue: object, _hear: object, _namespaces: list[str], watching: asyncio.Event
    ) -> None:
        watching.set()
        watches.set()
        await ends.wait()

    monkeypatch.setattr(Kube, "connect", connects_to(kube))
    monkeypatch.setattr(module, "serve", serves_to(checks))
    monkeypatch.setattr(module, "_CRD_RETRY_S", 0)
    monkeypatch.setattr("moriio_operator.runtime.source.run", watch)
    settings = Settings.model_validate(SETTINGS)
    running = asyncio.create_task(module.run(settings))
    await asyncio.wait_for(kube.asked.wait(), 5)
    (healthy, ready) = checks
    assert (healthy(), ready()) == (None, "the CRD is not there yet, or not watched yet")
    kube.installed = True
    await asyncio.wait_for(watches.wait(), 5)
    assert (healthy(), ready()) == (None, None)
    assert not kube.closed
    ends.set()
    await asyncio.wait_for(running, 5)
    assert kube.closed

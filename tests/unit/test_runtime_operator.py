"""The process lives and dies with its parts."""

from __future__ import annotations

import asyncio

import pytest
from moriio_operator.control.queue import Key, WorkQueue
from moriio_operator.kube.kinds import Kind
from moriio_operator.runtime import operator as module
from moriio_operator.runtime.operator import _until_one_ends, _watch

from unit.memory_kube import MemoryKube


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
    """An API server whose CRD comes with the third question."""

    asked = 0

    async def serves(self, kind: Kind) -> bool:
        assert kind.kind == "PDDeployment"
        self.asked += 1
        return self.asked == 3


async def test_the_watch_begins_when_the_crd_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    kube, queue, watching = LateCrd(), WorkQueue(), asyncio.Event()

    async def watch(enqueue: object, namespaces: list[str], ready: asyncio.Event) -> None:
        assert kube.asked == 3
        assert namespaces == ["team"]
        assert callable(enqueue)
        enqueue(Key("team", "llm"))
        ready.set()

    monkeypatch.setattr(module, "_CRD_RETRY_S", 0)
    monkeypatch.setattr("moriio_operator.runtime.source.run", watch)
    await asyncio.wait_for(_watch(kube, queue, ["team"], watching), 5)
    assert watching.is_set()
    assert await queue.get() == Key("team", "llm")

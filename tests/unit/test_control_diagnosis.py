"""Logs are read beside the passes: no create, no status write and no other log waits for one."""

from __future__ import annotations

import asyncio

import pytest
from moriio_operator.control import diagnosis as module
from moriio_operator.control.child_cache import ChildCache
from moriio_operator.control.diagnosis import Diagnosis
from moriio_operator.control.queue import Key

from unit.memory_kube import MemoryKube
from unit.passes import living, serving
from unit.played import KEY, Operator
from unit.samples import ended


class Silent(MemoryKube):
    """Its nodes do not answer for a log."""

    def __init__(self, kube: MemoryKube) -> None:
        super().__init__()
        self.objects, self.answer = kube.objects, asyncio.Event()
        self._version = 10_000

    async def log_tail(self, namespace: str, pod: str, container: str, lines: int) -> str:
        await self.answer.wait()
        return await super().log_tail(namespace, pod, container, lines)


async def with_an_ended_engine() -> tuple[Operator, Silent]:
    operator = await serving()
    kube = Silent(operator.kube)
    kube.put({**kube.one("Pod", "llm-decode-4"), "status": ended(0, "Completed")})
    return Operator(kube), kube


async def test_a_replacement_comes_before_the_log_is_there() -> None:
    operator, kube = await with_an_ended_engine()
    await operator.reconciler(ChildCache())(KEY)
    assert "llm-decode-8" in living(operator)
    assert operator.condition("DecodeReady").reason == "EngineEnded"
    # Its log would go with it.
    assert "llm-decode-4" in living(operator)
    kube.logs["team", "llm-decode-4", "engine"] = "EngineDeadError"
    kube.answer.set()
    await operator.diagnosis.settle()
    await operator.step()
    assert "llm-decode-4" not in living(operator)
    assert "EngineDeadError" in operator.condition("DecodeReady").message
    notes = [event["note"] for event in kube.of_kind("Event") if event["action"] == "Replace"]
    assert len(notes) == 1
    assert "EngineDeadError" in notes[0]


async def test_a_log_that_never_comes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT_S", 0.01)
    operator, _ = await with_an_ended_engine()
    await operator.step()
    assert living(operator) == ["llm-decode-8", "llm-prefill-0"]


async def test_the_pass_is_asked_for_once_a_log_was_read() -> None:
    operator, kube = await with_an_ended_engine()
    asked: list[Key] = []
    operator.diagnosis = Diagnosis(kube, asked.append)
    kube.answer.set()
    await operator.reconciler(ChildCache())(KEY)
    await operator.diagnosis.settle()
    assert asked == [KEY]


async def test_of_engines_that_are_gone_nothing_is_remembered() -> None:
    operator, kube = await with_an_ended_engine()
    kube.answer.set()
    await operator.settle()
    await operator.step()
    assert operator.diagnosis._found == {}

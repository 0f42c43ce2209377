"""The report as the API server gets it: on a change, at a heartbeat, and whatever the API says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from moriio_operator.api import names
from moriio_operator.api.report import ENGINES_MAX, EngineReport
from moriio_operator.facts.terms import Attention
from moriio_operator.kube.errors import ApiError, ForbiddenError, NotFoundError, UnreachableError
from moriio_operator.kube.objects import Object
from moriio_operator.node import report_writer as module
from moriio_operator.node.report_writer import ReportWriter, Writer

from unit.memory_kube import MemoryKube
from unit.samples import NOW
from unit.waiting import until

WRITER = Writer("team", "llm-router-x", "uid-router", "llm")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes and retries follow at once."""
    for name in ("SETTLE_S", "_FIRST_RETRY_S", "_LONGEST_RETRY_S"):
        monkeypatch.setattr(module, name, 0.001)


def engine(uid: str = "u1", version: str | None = "0.33.0") -> EngineReport:
    return EngineReport(pod_uid=uid, version=version)


def report(kube: MemoryKube) -> Object:
    (found,) = kube.of_kind("PDReport")
    return found


@asynccontextmanager
async def writing(kube: MemoryKube) -> AsyncIterator[ReportWriter]:
    writer = ReportWriter(kube, WRITER, lambda: NOW)
    running = asyncio.create_task(writer.run())
    try:
        yield writer
        assert not running.done()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def written(kube: MemoryKube, count: int) -> None:
    """Wait for so many writes; see that there is no other soon."""
    await until(lambda: len(kube.writes) >= count)
    await asyncio.sleep(0.05)
    assert len(kube.writes) == count


async def test_it_belongs_to_its_pod_and_names_its_deployment() -> None:
    kube = MemoryKube()
    async with writing(kube) as writer:
        writer.put(engine())
        await written(kube, 1)
    made = report(kube)
    assert (made["apiVersion"], made["renewTime"]) == (
        "moriio.dev/v1alpha1",
        "2026-05-04T12:00:00Z",
    )
    metadata = made["metadata"]
    assert (metadata["namespace"], metadata["name"]) == ("team", "llm-router-x")
    assert metadata["labels"] == names.base_labels("llm")
    assert metadata["ownerReferences"] == [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "llm-router-x",
            "uid": "uid-router",
            "controller": True,
            "blockOwnerDeletion": False,
        }
    ]


async def test_with_nothing_to_say_there_is_no_report() -> None:
    kube = MemoryKube()
    async with writing(kube) as writer:
        writer.keep(())
        await written(kube, 0)


async def test_what_several_answers_say_of_engines_comes_together_in_one_write() -> None:
    kube = MemoryKube()
    async with writing(kube) as writer:
        writer.put(engine("u2"))
        writer.put(engine("u1"))
        writer.put(EngineReport(pod_uid="u1", attention=Attention.MLA, recurrent_state=False))
        await written(kube, 1)
    assert report(kube)["engines"] == [
        {"podUID": "u1", "version": "0.33.0", "attention": "MLA", "recurrentState": False},
        {"podUID": "u2", "version": "0.33.0"},
    ]


async def test_what_is_known_already_is_not_written_again() -> None:
    kube = MemoryKube()
    async with writing(kube) as writer:
        writer.put(engine())
        await written(kube, 1)
        writer.put(engine())
        writer.keep({"u1", "u2"})
        await written(kube, 1)


async def test_engines_that_are_gone_are_taken_out() -> None:
    kube = MemoryKube()
    async with writing(kube) as writer:
        writer.put(engine())
        await written(kube, 1)
        writer.keep({"u2"})
        await written(kube, 2)
    assert report(kube)["engines"] == []


async def test_it_holds_no_more_engines_than_the_definition_allows() -> None:
    kube = MemoryKube()
    async with writing(kube) as writer:
        for n in range(ENGINES_MAX + 5):
            writer.put(engine(f"u{n}"))
        await written(kube, 1)
    assert len(report(kube)["engines"]) == ENGINES_MAX


async def test_a_report_that_is_there_is_renewed_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert module.HEARTBEAT_S >= 600
    monkeypatch.setattr(module, "HEARTBEAT_S", 0.02)
    kube = MemoryKube()
    applies: list[Object] = []
    kube.refuse = lambda _verb, obj: applies.append(obj)
    async with writing(kube) as writer:
        await asyncio.sleep(0.05)
        assert applies == []
        writer.put(engine())
        await until(lambda: len(applies) >= 3)
    assert applies[0] == applies[2]


def refusing(count: int, error: ApiError) -> Callable[[str, Object], ApiError | None]:
    left = iter(range(count))
    return lambda _verb, _obj: error if next(left, None) is not None else None


class Log:
    """What was logged, without its details."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def info(self, event: str, **_: object) -> None:
        self.events.append(event)

    warning = info


async def test_refusals_end_nothing_and_are_told_once_until_they_are_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = Log()
    monkeypatch.setattr(module, "log", log)
    missing = NotFoundError(404, "NotFound", "no such kind")
    forbidden = ForbiddenError(403, "Forbidden", "no right")
    answers = [missing] * 3 + [forbidden] * 2
    kube = MemoryKube()
    kube.refuse = lambda _verb, _obj: answers.pop(0) if answers else None
    async with writing(kube) as writer:
        writer.put(engine())
        await written(kube, 1)
    assert log.events == [
        "report not written",
        "report not written",
        "report written again",
    ]


async def test_what_changes_during_retries_is_in_the_write_that_succeeds() -> None:
    kube = MemoryKube()
    kube.refuse = refusing(1000, UnreachableError(TimeoutError()))
    async with writing(kube) as writer:
        writer.put(engine("u1"))
        await asyncio.sleep(0.02)
        writer.put(engine("u2"))
        kube.refuse = lambda _verb, _obj: None
        await written(kube, 1)
    assert [each["podUID"] for each in report(kube)["engines"]] == ["u1", "u2"]


async def test_retries_wait_longer_and_longer_up_to_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_FIRST_RETRY_S", 1.0)
    monkeypatch.setattr(module, "_LONGEST_RETRY_S", 4.0)
    monkeypatch.setattr("random.uniform", lambda _low, _high: 1.0)
    waits: list[float] = []
    real = asyncio.sleep

    async def noted(seconds: float) -> None:
        waits.append(seconds)
        await real(0)

    kube = MemoryKube()
    kube.refuse = refusing(4, UnreachableError(TimeoutError()))
    writer = ReportWriter(kube, WRITER, lambda: NOW)
    writer.put(engine())
    monkeypatch.setattr(asyncio, "sleep", noted)
    await writer._until_done(writer._write)
    assert waits == [1, 2, 4, 4]


async def once_written(kube: MemoryKube) -> None:
    async with writing(kube) as writer:
        writer.put(engine("u1"))
        writer.put(engine("u2"))
        await written(kube, 1)
    kube.writes.clear()


async def test_a_container_that_starts_again_takes_nothing_back() -> None:
    kube = MemoryKube()
    await once_written(kube)
    async with writing(kube) as writer:
        await asyncio.sleep(0.02)
        writer.put(engine("u1"))
        writer.keep({"u1", "u2"})
        await written(kube, 0)
        writer.keep({"u1"})
        await written(kube, 1)
    assert [each["podUID"] for each in report(kube)["engines"]] == ["u1"]


async def test_a_report_of_another_pod_of_its_name_is_no_beginning() -> None:
    kube = MemoryKube()
    await once_written(kube)
    report(kube)["metadata"]["ownerReferences"][0]["uid"] = "uid-of-another"
    async with writing(kube) as writer:
        writer.put(engine("u3"))
        await written(kube, 1)
    assert [each["podUID"] for each in report(kube)["engines"]] == ["u3"]


async def test_a_report_that_this_version_cannot_read_is_written_anew() -> None:
    kube = MemoryKube()
    await once_written(kube)
    report(kube)["engines"] = [{"podUID": ""}]
    async with writing(kube) as writer:
        writer.put(engine("u3"))
        await written(kube, 1)
    assert [each["podUID"] for each in report(kube)["engines"]] == ["u3"]

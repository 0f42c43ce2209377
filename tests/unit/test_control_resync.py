"""The resync compares everything with what passes know, and makes due only what differs."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from moriio_operator.control.child_cache import ChildCache
from moriio_operator.control.queue import Key, WorkQueue
from moriio_operator.control.resync import resync
from moriio_operator.kube.errors import ApiError, NotFoundError
from moriio_operator.kube.kinds import Kind
from moriio_operator.kube.objects import Object

from unit.memory_kube import MemoryKube
from unit.passes import serving
from unit.played import KEY, Operator
from unit.samples import READY, ended, laid_over, resource


class FailingOnce(MemoryKube):
    """The first list fails."""

    failed = False

    async def list(
        self, kind: Kind, namespace: str | None = None, selector: str = "", fields: str = ""
    ) -> tuple[list[Object], str]:
        if not self.failed:
            self.failed = True
            raise ApiError(503, "Unavailable", "down")
        return await super().list(kind, namespace, selector, fields)


@pytest.mark.parametrize("namespaces", [[], ["team"]])
async def test_a_resync_makes_every_deployment_due_and_survives_a_failure(
    namespaces: list[str],
) -> None:
    queue = WorkQueue()
    kube = FailingOnce(resource(), resource(name="other"))
    running = asyncio.create_task(resync(kube, queue, ChildCache(), namespaces, 0.001))
    found = {await asyncio.wait_for(queue.get(), 5) for _ in range(2)}
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert found == {KEY, Key("team", "other")}
    assert kube.failed


async def test_a_namespace_that_may_not_be_listed_keeps_no_other_from_its_resync() -> None:
    class Forbidden(MemoryKube):
        async def list(
            self, kind: Kind, namespace: str | None = None, selector: str = "", fields: str = ""
        ) -> tuple[list[Object], str]:
            if namespace == "closed":
                raise ApiError(403, "Forbidden", "no Role there yet")
            return await super().list(kind, namespace, selector, fields)

    queue = WorkQueue()
    kube = Forbidden(resource())
    running = asyncio.create_task(resync(kube, queue, ChildCache(), ["closed", "team"], 0.001))
    assert await asyncio.wait_for(queue.get(), 5) == KEY
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def one_round(operator: Operator, cache: ChildCache) -> list[Key]:
    """Resync once; give what became due."""
    queue = WorkQueue()
    running = asyncio.create_task(resync(operator.kube, queue, cache, [], 0.001))
    await asyncio.sleep(0.05)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return [await queue.get() for _ in range(len(queue))]


async def known() -> tuple[Operator, ChildCache]:
    """A deployment that serves, and what its last pass knew."""
    operator, cache = await serving(), ChildCache()
    await operator.reconciler(cache)(KEY)
    return operator, cache


async def test_a_deployment_that_is_idle_is_not_due() -> None:
    operator, cache = await known()
    assert await one_round(operator, cache) == []


async def test_an_idle_cluster_costs_lists_alone() -> None:
    calls: Counter[str] = Counter()

    class Counting(MemoryKube):
        async def list(
            self, kind: Kind, namespace: str | None = None, selector: str = "", fields: str = ""
        ) -> tuple[list[Object], str]:
            calls[kind.kind] += 1
            return await super().list(kind, namespace, selector, fields)

    operator, cache = await known()
    kube = Counting()
    kube.objects = operator.kube.objects
    queue = WorkQueue()
    running = asyncio.create_task(resync(kube, queue, cache, [], 0.02))
    await asyncio.sleep(0.1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert len(queue) == 0
    assert len(calls) == 8
    assert max(calls.values()) - min(calls.values()) <= 1


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("Pod", "llm-decode-4"),
        ("Service", "llm"),
        ("Deployment", "llm-router-sgntrwxt"),
        ("ControllerRevision", "llm-sgntrwxt"),
        ("ServiceAccount", "llm-router"),
        ("RoleBinding", "llm-router"),
    ],
)
@pytest.mark.parametrize("act", ["edited", "deleted", "unlabelled"])
async def test_what_happened_to_any_child_without_an_event_is_noticed(
    kind: str, name: str, act: str
) -> None:
    operator, cache = await known()
    live = operator.kube.one(kind, name)
    if act == "deleted":
        operator.kube.remove(kind, name)
    elif act == "unlabelled":
        operator.kube.put({**live, "metadata": {**live["metadata"], "labels": {}}})
    else:
        operator.kube.put(laid_over(live, {"metadata": {"labels": {"x": "y"}}}))
    assert await one_round(operator, cache) == [KEY]


async def test_a_change_of_the_spec_and_a_new_pod_are_noticed() -> None:
    operator, cache = await known()
    operator.change({"decode": {"replicas": 2}})
    assert await one_round(operator, cache) == [KEY]
    await operator.reconciler(cache)(KEY)
    # The pass saw no pod of those that it created, and nobody reported them.
    assert await one_round(operator, cache) == [KEY]


async def test_the_end_of_an_engine_is_noticed() -> None:
    operator, cache = await known()
    for status in (READY, ended()):
        operator.kube.put({**operator.kube.one("Pod", "llm-decode-4"), "status": status})
        assert await one_round(operator, cache) == [KEY]
        await operator.reconciler(cache)(KEY)


async def test_a_deployment_that_is_gone_or_was_made_anew_is_due_once() -> None:
    operator, cache = await known()
    again = operator.kube.one("PDDeployment", "llm")
    operator.kube.put(laid_over(again, {"metadata": {"uid": "another"}}))
    assert await one_round(operator, cache) == [KEY]
    operator, cache = await known()
    operator.kube.remove("PDDeployment", "llm")
    assert await one_round(operator, cache) == [KEY]
    await operator.reconciler(cache)(KEY)
    assert await one_round(operator, cache) == []


async def test_without_the_definition_of_reports_everything_else_is_compared() -> None:
    class Older(MemoryKube):
        async def list(
            self, kind: Kind, namespace: str | None = None, selector: str = "", fields: str = ""
        ) -> tuple[list[Object], str]:
            if kind.kind == "PDReport":
                raise NotFoundError(404, "NotFound", "no such kind")
            return await super().list(kind, namespace, selector, fields)

    operator, cache = await known()
    older = Older()
    older.objects = operator.kube.objects
    operator.kube = older
    assert await one_round(operator, cache) == []
    operator.kube.remove("Service", "llm")
    assert await one_round(operator, cache) == [KEY]

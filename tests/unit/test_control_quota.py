"""A full quota: waited for while something gives it back, told when nothing does."""

from __future__ import annotations

from datetime import timedelta

from moriio_operator.control.engine_pods import HELD_RETRY_S
from moriio_operator.control.reconcile import REFUSED_RETRY_S

from unit.passes import (
    QUOTA,
    fresh,
    refuse,
    serving,
    with_quota,
)


async def test_a_full_quota_does_not_keep_an_update_from_draining() -> None:
    # The old engines hold what the new ones need, and give it back when they go.
    operator = await serving()
    operator.kube.refuse = refuse(
        "dry-run", "Pod", QUOTA, lambda _: bool(operator.kube.of_kind("Pod"))
    )
    operator.change({"engine": {"image": "vllm:2"}})
    await operator.settle()
    assert operator.pods() == ["llm-decode-12", "llm-prefill-8"]


async def test_engines_that_stop_give_their_quota_to_those_that_start() -> None:
    operator = await serving({"decode": {"replicas": 3}})
    with_quota(operator, 4)
    operator.change({"prefill": {"replicas": 2}, "decode": {"replicas": 2}})
    await operator.settle()
    roles = [name.split("-")[1] for name in operator.pods()]
    assert roles == ["decode", "decode", "prefill", "prefill"]
    assert operator.condition("Ready").status == "True"


async def test_an_engine_that_still_leaves_holds_its_quota_without_a_fault_of_the_spec() -> None:
    operator = await serving()
    with_quota(operator, 2)
    operator.kube.one("Pod", "llm-decode-4")["metadata"]["deletionTimestamp"] = (
        "2026-05-04T12:00:00Z"
    )
    assert await operator.step() == HELD_RETRY_S
    assert operator.condition("Accepted").status == "True"
    assert operator.status.port_allocation.cursor == 8
    await operator.settle()
    assert operator.pods() == ["llm-decode-8", "llm-prefill-0"]


async def test_a_quota_that_nobody_gives_back_is_told() -> None:
    operator = await serving()
    with_quota(operator, 2)
    operator.change({"decode": {"replicas": 2}})
    assert await operator.step() == REFUSED_RETRY_S
    assert operator.condition("Accepted").reason == "OverQuota"
    assert "exceeded quota" in operator.condition("Accepted").message


async def test_an_engine_on_a_lost_node_does_not_excuse_a_full_quota_for_ever() -> None:
    operator = await serving()
    with_quota(operator, 2)
    operator.kube.one("Pod", "llm-decode-4")["metadata"]["deletionTimestamp"] = (
        "2026-05-04T12:00:00Z"
    )
    operator.time += timedelta(seconds=60)
    assert await operator.step() == HELD_RETRY_S
    assert operator.condition("Accepted").status == "True"
    operator.time += timedelta(seconds=1)
    assert await operator.step() == REFUSED_RETRY_S
    assert operator.condition("Accepted").reason == "OverQuota"
    assert "exceeded quota" in operator.condition("Accepted").message
    assert operator.pods() == ["llm-decode-4", "llm-prefill-0"]


async def test_creates_that_are_refused_midway_are_told_by_the_next_pass() -> None:
    operator = fresh({"decode": {"replicas": 3}})
    with_quota(operator, 2)
    assert await operator.step() == HELD_RETRY_S
    assert await operator.step() == REFUSED_RETRY_S
    assert len(operator.pods()) == 2
    assert "exceeded quota" in operator.condition("Accepted").message

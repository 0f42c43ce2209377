"""One pass after the other over an API in memory: what is written, in which order, what is told."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from moriio_operator.api import names
from moriio_operator.control.child_cache import ChildCache
from moriio_operator.control.observe import observe
from moriio_operator.control.reconcile import REFUSED_RETRY_S
from moriio_operator.kube.errors import ApiError, ConflictError
from moriio_operator.kube.objects import Object
from moriio_operator.plan.step import DRAIN_LOOK_S

from unit.memory_kube import CrashError, MemoryKube
from unit.passes import (
    INVALID,
    dies,
    fresh,
    refuse,
    serving,
)
from unit.played import KEY
from unit.samples import (
    UID,
    resource,
    spec_object,
)


async def test_a_new_deployment_gets_everything_in_one_pass_in_the_order_that_crashes_need() -> (
    None
):
    operator = fresh()
    await operator.step()
    writes = [write for write in operator.kube.writes if "Event" not in write]
    kinds = [" ".join(write.split()[:2]) for write in writes]
    assert kinds == [
        # A pass over a stale reading ends here.
        "apply PDDeployment",
        *["create ControllerRevision"] * 2,
        "create Service",
        "create ServiceAccount",
        "create RoleBinding",
        *["create Service"] * 2,
        "create Deployment",
        "apply PDDeployment",
        *["create Pod"] * 2,
    ]
    assert operator.status.port_allocation.cursor == 8


async def test_an_idle_deployment_is_not_written() -> None:
    operator = await serving()
    await operator.step()
    operator.time += timedelta(hours=1)
    await operator.step()
    assert operator.kube.writes == []


async def test_a_deployment_whose_pods_are_ready_is_ready() -> None:
    operator = await serving()
    ready = operator.condition("Ready")
    assert (ready.status, ready.reason) == ("True", "Serving")
    assert operator.condition("Progressing").reason == "Settled"
    assert operator.status.summary is not None
    assert operator.status.summary.model_dump() == {
        "prefill": "1/1",
        "decode": "1/1",
        "reason": "",
    }


@pytest.mark.parametrize("gone", ["absent", "deleted"])
async def test_a_deployment_that_is_gone_is_left_to_the_garbage_collector(gone: str) -> None:
    operator = await serving()
    live = operator.kube.one("PDDeployment", "llm")
    if gone == "absent":
        operator.kube.remove("PDDeployment", "llm")
    else:
        live["metadata"]["deletionTimestamp"] = "2026-05-04T12:00:00Z"
    assert await operator.step() is None
    assert operator.kube.writes == []


async def test_a_stale_reading_creates_nothing() -> None:
    operator = fresh()
    operator.kube.refuse = refuse("apply", "PDDeployment", ConflictError(409, "Conflict", "stale"))
    with pytest.raises(ConflictError):
        await operator.step()
    assert operator.pods() == []


async def test_a_change_between_reading_and_writing_creates_nothing() -> None:
    operator = fresh()

    def meanwhile(verb: str, obj: Object) -> None:
        if (verb, obj["kind"]) == ("create", "Deployment"):
            operator.change({"engine": {"image": "vllm:2"}})

    operator.kube.refuse = meanwhile
    with pytest.raises(ConflictError):
        await operator.step()
    assert operator.pods() == []
    assert operator.status.port_allocation.cursor == 0


async def test_a_scale_up_creates_and_a_scale_down_stops_the_newest() -> None:
    operator = await serving()
    operator.change({"decode": {"replicas": 3}})
    await operator.settle()
    assert operator.pods() == ["llm-decode-12", "llm-decode-4", "llm-decode-8", "llm-prefill-0"]
    operator.change({"decode": {"replicas": 1}})
    await operator.settle()
    assert operator.pods() == ["llm-decode-4", "llm-prefill-0"]


async def test_a_change_of_the_router_alone_restarts_no_engine() -> None:
    operator = await serving()
    operator.change({"router": {"policy": "Random"}})
    await operator.settle()
    written = {write.split()[1] for write in operator.kube.writes if "Event" not in write}
    assert written == {"ControllerRevision", "Deployment", "PDDeployment"}


async def test_an_update_stops_the_old_revision_before_it_starts_the_new_one() -> None:
    operator = await serving()
    before = operator.status.revision
    operator.change({"engine": {"image": "vllm:2"}})
    await operator.step()
    assert all(pod["metadata"].get("deletionTimestamp") for pod in operator.kube.of_kind("Pod"))
    assert operator.condition("Progressing").reason == "DrainingOldRevision"
    assert "llm-decode-4, llm-prefill-0" in operator.condition("Progressing").message
    await operator.settle()
    assert operator.status.revision != before
    assert operator.pods() == ["llm-decode-12", "llm-prefill-8"]
    assert operator.condition("Ready").status == "True"


async def test_a_drain_wakes_itself_and_tells_when_it_is_stuck() -> None:
    operator = await serving()
    operator.change({"engine": {"image": "vllm:2"}})
    for _ in range(3):
        assert await operator.step() == DRAIN_LOOK_S
        assert operator.condition("Progressing").reason == "DrainingOldRevision"
        operator.time += timedelta(seconds=DRAIN_LOOK_S)
    await operator.step()
    assert operator.condition("Progressing").reason == "DrainStuck"


async def test_the_resync_in_the_middle_of_a_pass_hides_nothing() -> None:
    operator = await serving()
    cache = ChildCache()
    reconcile = operator.reconciler(cache)
    await reconcile(KEY)

    class Forgetting(MemoryKube):
        async def list(self, *arguments: Any) -> tuple[list[Object], str]:
            cache.forget_all()
            return await operator.kube.list(*arguments)

        async def get(self, *arguments: Any) -> Object | None:
            return await operator.kube.get(*arguments)

    world = await observe(Forgetting(), cache, KEY)
    assert world is not None
    assert len(world.children) == 8
    await reconcile(KEY)
    assert operator.kube.writes == []


async def test_stops_are_fenced_too() -> None:
    # The status says it all already, so nothing of it is due: the fence alone stands before.
    operator = await serving()
    dies(operator, "llm-decode-4")
    operator.kube.refuse = refuse("delete", "Pod", ApiError(503, "Unavailable", "down"))
    await operator.step()
    operator.kube.refuse = refuse("apply", "PDDeployment", ConflictError(409, "Conflict", "stale"))
    with pytest.raises(ConflictError):
        await operator.step()
    assert "deletionTimestamp" not in operator.kube.one("Pod", "llm-decode-4")["metadata"]


async def test_an_event_that_cannot_be_posted_does_not_stop_the_pass() -> None:
    operator = fresh()
    operator.kube.refuse = refuse("create", "Event", INVALID)
    await operator.step()
    assert operator.pods() == ["llm-decode-4", "llm-prefill-0"]


async def test_an_object_of_another_schema_is_told_and_tried_again() -> None:
    operator = await serving()
    operator.kube.one("PDDeployment", "llm")["spec"] = {"model": {}}
    assert await operator.step() == REFUSED_RETRY_S
    assert operator.kube.writes == []


async def test_a_status_that_is_lost_is_made_anew_and_no_living_block_is_given_out_again() -> None:
    operator = await serving()
    del operator.kube.one("PDDeployment", "llm")["status"]
    operator.change({"decode": {"replicas": 2}})
    # It is taken for a new one, until a name is met that one of its own holds.
    with pytest.raises(ConflictError):
        await operator.step()
    await operator.settle()
    assert operator.pods() == ["llm-decode-4", "llm-decode-8", "llm-prefill-0"]
    assert operator.status.port_allocation.cursor == 12
    assert operator.condition("Ready").status == "True"


async def test_a_status_of_another_version_keeps_its_cursor_and_is_written_anew() -> None:
    operator = await serving()
    status = operator.kube.one("PDDeployment", "llm")["status"]
    status["engines"][0]["state"] = "Levitating"
    status["portAllocation"]["cursor"] = 100
    operator.change({"decode": {"replicas": 2}})
    await operator.settle()
    assert operator.pods() == ["llm-decode-100", "llm-decode-4", "llm-prefill-0"]
    assert operator.status.port_allocation.cursor == 104
    assert {engine.state for engine in operator.status.engines} == {"Ready"}


@pytest.mark.parametrize("answered", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("write", range(1, 14))
async def test_a_crash_at_any_write_of_the_first_pass_leaves_no_double(
    write: int, *, answered: bool
) -> None:
    operator = fresh({"decode": {"replicas": 2}})
    operator.kube.crash_at(write, answered=answered)
    with pytest.raises(CrashError):
        await operator.settle()
    await operator.settle()
    assert operator.condition("Ready").status == "True"
    roles = [name.split("-")[1] for name in operator.pods()]
    assert roles == ["decode", "decode", "prefill"]
    serials = [int(name.rsplit("-", 1)[1]) for name in operator.pods()]
    assert operator.status.port_allocation.cursor > max(serials)


async def test_what_a_report_says_of_a_living_engine_is_compared_with_the_spec() -> None:
    operator = await serving({"model": {"config": {"attention": "MLA"}}})
    uid = operator.kube.of_kind("Pod")[0]["metadata"]["uid"]
    metadata = {"name": "r", "namespace": "team", "labels": names.base_labels("llm")}
    report = {
        "apiVersion": names.API_VERSION,
        "kind": "PDReport",
        "metadata": metadata,
        "engines": [{"podUID": uid, "attention": "GQA"}, {"podUID": "gone", "attention": "MLA"}],
        "renewTime": "2026-05-04T12:00:00Z",
    }
    operator.kube.put(report)
    await operator.step()
    checked = operator.condition("ContractChecked")
    assert (checked.status, checked.reason) == ("False", "FactsDiffer")
    assert checked.message == (
        "spec.model.config.attention is stated as MLA, and the engine reports GQA: correct it"
    )
    # It belongs to its pod, and nobody else takes it away.
    assert operator.kube.one("PDReport", "r")["engines"] == report["engines"]
    operator.kube.remove("PDReport", "r")
    await operator.step()
    assert operator.condition("ContractChecked").reason != "FactsDiffer"


def test_the_samples_are_what_the_api_server_would_store() -> None:
    made = resource()
    assert made["metadata"]["uid"] == UID
    assert made["spec"]["model"].items() >= spec_object()["model"].items()

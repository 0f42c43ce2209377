"""Engine pods that end, are edited, taken or forged by others."""

from __future__ import annotations

import copy
from datetime import timedelta

import pytest
from moriio_operator.control.engine_pods import HELD_RETRY_S, TAKEN_RETRY_S
from moriio_operator.facts.terms import Role

from unit.memory_kube import MemoryKube
from unit.passes import (
    FORBIDDEN,
    dies,
    fresh,
    living,
    refuse,
    serving,
)
from unit.played import Operator
from unit.samples import (
    READY,
    UNREADY,
    container,
    ended,
    resource,
)


@pytest.mark.parametrize("label", ["revision", "role"])
async def test_an_engine_whose_label_is_changed_is_replaced_alone(label: str) -> None:
    operator = await serving()
    pod = operator.kube.one("Pod", "llm-decode-4")
    pod["metadata"]["labels"][f"moriio.dev/{label}"] = "prefill" if label == "role" else "xxxx"
    await operator.step()
    assert living(operator) == ["llm-decode-8", "llm-prefill-0"]
    assert operator.condition("Progressing").reason == "StartingEngines"
    notes = [event["note"] for event in operator.kube.of_kind("Event")]
    assert sum(note.startswith("llm-decode-4: ") for note in notes) == 1
    await operator.settle()
    assert operator.pods() == ["llm-decode-8", "llm-prefill-0"]


@pytest.mark.parametrize("label", ["revision", "role"])
async def test_an_engine_whose_label_is_removed_is_left_alone_and_another_made(label: str) -> None:
    operator = await serving()
    del operator.kube.one("Pod", "llm-decode-4")["metadata"]["labels"][f"moriio.dev/{label}"]
    await operator.settle()
    assert operator.pods() == ["llm-decode-4", "llm-decode-8", "llm-prefill-0"]
    assert operator.status.roles[1].pods == 1


async def test_a_name_that_a_stranger_holds_is_looked_at_again_soon() -> None:
    operator = fresh()
    stranger = {"name": "llm-decode-4", "namespace": "team", "labels": {}}
    operator.kube.put({"apiVersion": "v1", "kind": "Pod", "metadata": stranger})
    assert await operator.step() == TAKEN_RETRY_S
    await operator.settle()
    assert operator.pods() == ["llm-decode-4", "llm-decode-8", "llm-prefill-0"]
    assert operator.condition("Ready").status == "True"


async def test_an_ended_engine_is_replaced_told_and_counted_once() -> None:
    operator = await serving()
    pod = operator.kube.one("Pod", "llm-decode-4")
    operator.kube.put({**pod, "status": ended(1, "Error", "boom")})
    await operator.step()
    assert operator.pods() == ["llm-decode-4", "llm-decode-8", "llm-prefill-0"]
    ready = operator.condition("DecodeReady")
    assert ready.reason == "EngineEnded"
    assert "llm-decode-4 ended (Error): exit code 1; its log ends: boom" in ready.message
    notes = [event["note"] for event in operator.kube.of_kind("Event")]
    assert notes.count("llm-decode-4: Error: exit code 1; its log ends: boom") == 1
    await operator.settle()
    (decode,) = [role for role in operator.status.roles if role.name == "decode"]
    assert (decode.failures, decode.last_failure) == (1, None)
    assert operator.condition("Ready").status == "True"


async def test_an_engine_whose_sidecar_ended_is_replaced() -> None:
    operator = await serving()
    over = container({"terminated": {"exitCode": 137, "reason": "OOMKilled"}}, name="log")
    status = {**UNREADY, "containerStatuses": [*UNREADY["containerStatuses"], over]}
    operator.kube.put({**operator.kube.one("Pod", "llm-decode-4"), "status": status})
    await operator.step()
    assert living(operator) == ["llm-decode-8", "llm-prefill-0"]
    ready = operator.condition("DecodeReady")
    assert ready.reason == "EngineEnded"
    assert "llm-decode-4 ended (OOMKilled): container log: exit code 137" in ready.message
    await operator.settle()
    assert operator.pods() == ["llm-decode-8", "llm-prefill-0"]
    assert operator.condition("Ready").status == "True"


async def test_engines_that_end_with_their_node_are_one_failure_and_come_back_at_once() -> None:
    operator = await serving({"decode": {"replicas": 3}})
    for serial in (4, 8, 12):
        pod = operator.kube.one("Pod", f"llm-decode-{serial}")
        pod["metadata"]["creationTimestamp"] = "2026-05-04T11:00:00Z"
        dies(operator, f"llm-decode-{serial}")
        assert await operator.step() is None
        operator.kubelets()
        operator.time += timedelta(seconds=5)
    (decode,) = [role for role in operator.status.roles if role.name == "decode"]
    assert (decode.failures, decode.ready) == (1, 2)
    assert decode.last_failure_time == "2026-05-04T12:00:00Z"
    await operator.settle()
    assert operator.condition("DecodeReady").status == "True"


async def test_a_crash_loop_waits_longer_each_time_and_asks_to_be_woken() -> None:
    operator = await serving()
    waits = []
    for _ in range(4):
        for pod in operator.kube.of_kind("Pod"):
            if pod["metadata"]["labels"]["moriio.dev/role"] == Role.DECODE:
                operator.kube.put({**pod, "status": ended()})
        waits.append(await operator.step())
        operator.kubelets()
        operator.time += timedelta(seconds=waits[-1] or 0)
        await operator.step()
    assert waits == [None, 10, 20, 40]


async def test_an_engine_that_a_user_deletes_is_replaced_without_being_counted() -> None:
    operator = await serving()
    operator.kube.one("Pod", "llm-decode-4")["metadata"]["deletionTimestamp"] = (
        "2026-05-04T12:00:00Z"
    )
    await operator.step()
    assert "llm-decode-8" in operator.pods()
    assert [role.failures for role in operator.status.roles] == [0, 0]


async def test_a_pod_that_does_not_read_as_an_engine_is_left_alone() -> None:
    operator = await serving()
    stranger = copy.deepcopy(operator.kube.one("Pod", "llm-decode-4"))
    stranger["metadata"].update(name="mine", uid="uid-of-mine")
    operator.kube.put(stranger)
    operator.change({"decode": {"replicas": 2}})
    await operator.settle()
    assert operator.pods() == ["llm-decode-4", "llm-decode-8", "llm-prefill-0", "mine"]


async def test_a_pod_with_our_labels_but_another_owner_does_not_count() -> None:
    operator = fresh()
    await operator.step()
    other = copy.deepcopy(operator.kube.one("Pod", "llm-decode-4"))
    other["metadata"]["name"] = "llm-decode-9"
    other["metadata"]["ownerReferences"][0]["uid"] = "other"
    operator.kube.put({**other, "status": READY})
    await operator.step()
    assert [engine.pod for engine in operator.status.engines] == ["llm-decode-4", "llm-prefill-0"]


async def test_an_engine_name_that_a_stranger_holds_is_stepped_over() -> None:
    stranger = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "llm-prefill-0", "namespace": "team"},
    }
    operator = Operator(MemoryKube(resource(), stranger))
    await operator.step()
    await operator.step()
    assert operator.pods() == ["llm-decode-4", "llm-prefill-0", "llm-prefill-8"]


async def test_an_engine_that_ends_without_a_word_is_told_by_the_end_of_its_log() -> None:
    operator = await serving()
    pod = operator.kube.one("Pod", "llm-decode-4")
    operator.kube.put({**pod, "status": ended(0, "Completed")})
    lines = [f"line {number}" for number in range(100)]
    operator.kube.logs["team", "llm-decode-4", "engine"] = "\n".join([*lines, "EngineDeadError"])
    await operator.step()
    message = operator.condition("DecodeReady").message
    assert "exit code 0; its log ends: line 81" in message
    assert "EngineDeadError" in message


async def test_a_log_that_cannot_be_read_does_not_keep_an_engine_from_its_successor() -> None:
    operator = await serving()
    pod = operator.kube.one("Pod", "llm-decode-4")
    operator.kube.put({**pod, "status": ended(0, "Completed")})
    await operator.settle()
    assert [name for name in operator.pods() if "decode" in name] == ["llm-decode-8"]


async def test_an_engine_that_cannot_be_stopped_does_not_keep_others_from_being_made() -> None:
    operator = await serving()
    operator.kube.refuse = refuse("delete", "Pod", FORBIDDEN)
    pod = operator.kube.one("Pod", "llm-decode-4")
    operator.kube.put({**pod, "status": ended()})
    assert await operator.step() == HELD_RETRY_S
    assert "llm-decode-8" in operator.pods()

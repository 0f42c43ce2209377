"""Two operators at once, as when a paused leader wakes up: the one that read first does no harm.

At every write of one pass the other operator does whole passes of its own, and its user changes the
spec; then the first goes on from where it was.
"""

from __future__ import annotations

import pytest
from moriio_operator.kube.errors import ConflictError

from unit.memory_kube import MemoryKube
from unit.played import Operator
from unit.samples import Json, ended, resource

WISH: Json = {"prefill": {"replicas": 2}, "decode": {"replicas": 2}}


async def prepared(scenario: str) -> Operator:
    """An operator that is about to do its part of a scenario."""
    operator = Operator(MemoryKube(resource(WISH)))
    if scenario == "create":
        return operator
    await operator.settle()
    if scenario == "scale up":
        operator.change({"decode": {"replicas": 4}})
    elif scenario == "scale down":
        operator.change({"decode": {"replicas": 1}})
    elif scenario == "new revision":
        operator.change({"engine": {"image": "vllm:2"}})
    else:
        pod = operator.kube.one("Pod", operator.pods()[0])
        operator.kube.put({**pod, "status": ended()})
    operator.kube.writes.clear()
    return operator


async def writes_of(scenario: str) -> list[str]:
    operator = await prepared(scenario)
    await operator.step()
    return list(operator.kube.writes)


SCENARIOS = ("create", "scale up", "scale down", "new revision", "an end")


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize(
    "change", [{}, {"prefill": {"replicas": 3}}, {"connector": {"mode": "Write"}}]
)
async def test_who_reads_first_and_writes_last_does_no_harm(scenario: str, change: Json) -> None:
    for index in range(len(await writes_of(scenario))):
        paused = await prepared(scenario)
        kube, used = paused.kube, dict[str, int]()
        leader = Operator(kube)

        async def takes_over(leader: Operator = leader) -> None:
            if change:
                leader.change(change)
            await leader.settle()

        kube.meanwhile = (index, takes_over)
        before = len(kube.writes)
        try:
            await paused.step()
        except ConflictError:
            pass
        else:
            # Only what was under way when the status had been written already.
            assert "apply PDDeployment llm" in kube.writes[before:][: index + 1]
        for pod in kube.of_kind("Pod"):
            used[pod["metadata"]["name"]] = first_port(pod)
        await leader.settle()
        for pod in kube.of_kind("Pod"):
            used[pod["metadata"]["name"]] = first_port(pod)
        assert len(set(used.values())) == len(used), "two engines of one block"
        for role in ("prefill", "decode"):
            wished = kube.one("PDDeployment", "llm")["spec"][role]["replicas"]
            living = [name for name in leader.pods() if f"-{role}-" in name]
            assert len(living) == wished
        assert leader.condition("Ready").status == "True"


def first_port(pod: Json) -> int:
    ports = pod["spec"]["containers"][0]["ports"]
    return int(min(port["containerPort"] for port in ports))


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_once_another_has_written_the_status_nothing_is_created_or_deleted(
    scenario: str,
) -> None:
    paused = await prepared(scenario)
    kube = paused.kube
    leader = Operator(kube)

    async def takes_over() -> None:
        leader.change({"prefill": {"replicas": 3}})
        await leader.settle()
        kube.writes.clear()

    kube.meanwhile = (0, takes_over)
    with pytest.raises(ConflictError):
        await paused.step()
    assert kube.writes == []

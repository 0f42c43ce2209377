"""What engines tell is compared with what is stated: once each, and nothing waits for it."""

from __future__ import annotations

from dataclasses import replace

from moriio_operator.api.status import EngineState
from moriio_operator.control.descriptions import AGAIN_S, Descriptions
from moriio_operator.facts.terms import ROLES, Role
from moriio_operator.kube.objects import Object
from moriio_operator.stack.vllm_moriio.description import DESCRIBED

from unit.memory_kube import MemoryKube
from unit.samples import NOW, Json, engine, later, owner, resource

INTRODUCED = "INFO Initializing a V1 LLM engine (v{}) with config: model='x'"
STATED: Json = {
    "engine": {"version": "0.32.0"},
    "model": {"facts": {"attention": "MLA", "kvHeads": 8}},
}
ENGINES = [engine(4 * index, role) for index, role in enumerate(ROLES)]


class Logs(MemoryKube):
    """Counts the logs that were read."""

    read = 0

    async def log_head(self, namespace: str, pod: str, container: str, size: int) -> str:
        self.read += 1
        return (await super().log_tail(namespace, pod, container, 10**6))[:size]

    async def log_tail(self, namespace: str, pod: str, container: str, lines: int) -> str:
        self.read += 1
        return await super().log_tail(namespace, pod, container, lines)


def router_pod(*, started: bool = True) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "llm-router-x",
            "namespace": "team",
            "labels": {"moriio.dev/deployment": "llm", "moriio.dev/component": "router"},
        },
        "spec": {"containers": []},
        "status": {"initContainerStatuses": [{"name": "registrar", "started": started}]},
    }


def cluster(version: str = "0.32.0", attention: str = "MLA", *, engines: int = 2) -> Logs:
    kube = Logs(resource(), router_pod())
    lines = []
    for each in ENGINES[:engines]:
        kube.logs["team", each.pod, "engine"] = INTRODUCED.format(version)
        lines.append(
            f'level=info event="{DESCRIBED}" pod_uid={each.uid} attention={attention} kv_heads='
        )
    kube.logs["team", "llm-router-x", "registrar"] = "\n".join(lines)
    return kube


async def test_what_agrees_is_heard_once_and_then_no_log_is_read() -> None:
    kube, told = cluster(), Descriptions()
    found = await told.compare(kube, owner(STATED), ENGINES, NOW)
    assert (found.differences, found.again_s) == ((), None)
    assert kube.read == 3
    assert (await told.compare(kube, owner(STATED), ENGINES, NOW)).differences == ()
    assert kube.read == 3


async def test_what_differs_is_named_once_for_all_engines() -> None:
    found = await Descriptions().compare(cluster("0.31.2", "GQA"), owner(STATED), ENGINES, NOW)
    assert found.differences == (
        "vLLM's version is stated as 0.32.0, and the engine tells 0.31.2: correct "
        "spec.engine.version",
        "spec.model.facts.attention is stated as MLA, and the engine tells GQA: correct it",
    )


async def test_where_nothing_is_stated_nothing_is_read() -> None:
    kube = cluster()
    assert (await Descriptions().compare(kube, owner(), ENGINES, NOW)).again_s is None
    assert kube.read == 0


async def test_an_engine_that_was_not_heard_is_asked_about_again_after_a_while() -> None:
    kube, told = cluster(engines=1), Descriptions()
    assert (await told.compare(kube, owner(STATED), ENGINES, NOW)).again_s == AGAIN_S
    before = kube.read
    for seconds in (0, 1, AGAIN_S - 1):
        found = await told.compare(kube, owner(STATED), ENGINES, later(seconds))
        assert found.again_s == AGAIN_S
    assert kube.read == before, "passes come in swarms"
    await told.compare(kube, owner(STATED), ENGINES, later(AGAIN_S))
    assert kube.read > before


async def test_in_the_end_it_asks_for_no_passes_of_its_own_and_still_hears_in_those_that_come() -> (
    None
):
    kube, told = cluster(engines=1), Descriptions()
    times = [later(n * AGAIN_S) for n in range(6)]
    waits = [(await told.compare(kube, owner(STATED), ENGINES, at)).again_s for at in times]
    assert waits == [AGAIN_S] * 3 + [None] * 3
    silent = ENGINES[1]
    kube.logs["team", silent.pod, "engine"] = INTRODUCED.format("0.32.0")
    line = f'level=info event="{DESCRIBED}" pod_uid={silent.uid} attention=GQA kv_heads='
    kube.logs["team", "llm-router-x", "registrar"] += f"\n{line}"
    found = await told.compare(kube, owner(STATED), ENGINES, later(900))
    assert len(found.differences) == 1


async def test_what_was_heard_counts_while_the_pod_is_there_ready_or_not() -> None:
    kube, told = cluster(attention="GQA"), Descriptions()
    first = await told.compare(kube, owner(STATED), ENGINES, NOW)
    assert first.differences
    before = kube.read
    unready = [replace(each, state=EngineState.UNREADY) for each in ENGINES]
    assert await told.compare(kube, owner(STATED), unready, later(60)) == first
    assert kube.read == before


async def test_a_build_after_a_release_is_of_that_release() -> None:
    found = await Descriptions().compare(cluster("0.32.1.dev5+g1"), owner(STATED), ENGINES, NOW)
    assert found.differences == ()


async def test_after_a_restart_not_all_logs_are_read_at_once() -> None:
    kube, told = Logs(resource()), Descriptions()
    many = [replace(engine(4 * n, Role.DECODE), uid=f"uid-{n}") for n in range(20)]
    for each in many:
        kube.logs["team", each.pod, "engine"] = INTRODUCED.format("0.32.0")
    stated_version = owner({"engine": STATED["engine"]})
    reads = []
    for n in range(4):
        await told.compare(kube, stated_version, many, later(n))
        reads.append(kube.read)
    assert reads == [8, 16, 20, 20]


async def test_a_registrar_that_has_not_started_is_not_read() -> None:
    kube = cluster()
    kube.put(router_pod(started=False))
    found = await Descriptions().compare(kube, owner({"model": STATED["model"]}), ENGINES, NOW)
    assert (found.again_s, kube.read) == (AGAIN_S, 0)


async def test_of_engines_and_deployments_that_are_gone_nothing_is_kept() -> None:
    kube, told, whose = cluster(), Descriptions(), owner(STATED)
    await told.compare(kube, whose, ENGINES, NOW)
    assert len(told._heard[("team", "llm")]) == 2  # type: ignore[index]
    await told.compare(kube, whose, ENGINES[:1], NOW)
    assert len(told._heard[("team", "llm")]) == 1  # type: ignore[index]
    told.forget(next(iter(told._heard)))
    assert told._heard == {}

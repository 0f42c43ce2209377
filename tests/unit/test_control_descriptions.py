"""What engines tell is compared with what is stated: once each, and nothing waits for it."""

from __future__ import annotations

from moriio_operator.api.names import ROLES
from moriio_operator.contract.description import DESCRIBED
from moriio_operator.control.descriptions import AGAIN_S, Descriptions
from moriio_operator.kube.client import Object

from unit.memory_kube import MemoryKube
from unit.samples import Json, engine, owner, resource

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
        lines.append(f'event="{DESCRIBED}" pod_uid={each.uid} attention={attention} kv_heads=')
    kube.logs["team", "llm-router-x", "registrar"] = "\n".join(lines)
    return kube


async def test_what_agrees_is_heard_once_and_then_no_log_is_read() -> None:
    kube, told = cluster(), Descriptions()
    found = await told.compare(kube, owner(STATED), ENGINES)
    assert (found.differences, found.again_s) == ((), None)
    assert kube.read == 3
    assert (await told.compare(kube, owner(STATED), ENGINES)).differences == ()
    assert kube.read == 3


async def test_what_differs_is_named_once_for_all_engines() -> None:
    found = await Descriptions().compare(cluster("0.31.2", "GQA"), owner(STATED), ENGINES)
    assert found.differences == (
        "vLLM's version is stated as 0.32.0, and the engine tells 0.31.2: correct "
        "spec.engine.version",
        "spec.model.facts.attention is stated as MLA, and the engine tells GQA: correct it",
    )


async def test_where_nothing_is_stated_nothing_is_read() -> None:
    kube = cluster()
    assert (await Descriptions().compare(kube, owner(), ENGINES)).again_s is None
    assert kube.read == 0


async def test_an_engine_that_was_not_heard_is_asked_about_again_and_not_for_ever() -> None:
    kube, told = cluster(engines=1), Descriptions()
    waits = [(await told.compare(kube, owner(STATED), ENGINES)).again_s for _ in range(6)]
    assert waits == [AGAIN_S] * 3 + [None] * 3
    before = kube.read
    await told.compare(kube, owner(STATED), ENGINES)
    assert kube.read == before


async def test_a_registrar_that_has_not_started_is_not_read() -> None:
    kube = cluster()
    kube.put(router_pod(started=False))
    found = await Descriptions().compare(kube, owner({"model": STATED["model"]}), ENGINES)
    assert (found.again_s, kube.read) == (AGAIN_S, 0)


async def test_of_engines_and_deployments_that_are_gone_nothing_is_kept() -> None:
    kube, told, whose = cluster(), Descriptions(), owner(STATED)
    await told.compare(kube, whose, ENGINES)
    assert len(told._heard[("team", "llm")]) == 2  # type: ignore[index]
    await told.compare(kube, whose, ENGINES[:1])
    assert len(told._heard[("team", "llm")]) == 1  # type: ignore[index]
    told.forget(next(iter(told._heard)))
    assert told._heard == {}

"""Two hundred engines on the host network of twenty nodes never share a port, whatever happens.

Engines, whole PDDeployments, nodes and operators come and go for a while, as fast as the operator
brings engines back; strangers take ports that engines want. The nodes are played, the operator is
the real process; what is judged is the record of the pods, event by event.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from bed.cluster import Bed
from moriio_operator.api import names
from moriio_operator.api.kinds import PDDEPLOYMENT
from moriio_operator.facts.terms import ROLES
from moriio_operator.kube import kinds
from stage.api import Api, Json
from stage.churn import EACH, ENGINES, NODES, RANGE, Churn
from stage.hostports import (
    Recorder,
    Shared,
    Sight,
    clashes,
    cycles,
    doubles,
    early_returns,
    excerpt,
)
from stage.lane import NAMESPACES, until
from stage.leaders import PATIENCE_S, Operators
from stage.operator_process import ForkServer

pytestmark = [pytest.mark.alone, pytest.mark.load(3)]

# Five minutes in `make test-long`.
CHURN_S = float(os.environ.get("CHURN_SECONDS", "60"))
SETTLE_S = 150.0
# What the churn must have been at the least, for its end to mean something. A busy machine of two
# processors walked through 0.7 of the range in one minute and 1.5 times through it in five; once is
# what brings every block round.
BIRTHS_A_MINUTE = ENGINES
WALKS_A_MINUTE, WALKS = 0.5, 1.0


@pytest.fixture
def played_nodes(bed: Bed) -> Iterator[None]:
    """Give the nodes, for one test."""
    with bed.play_nodes(NODES):
        yield


def condition(obj: Json, kind: str) -> Any:
    """Give the status of a condition; None if the object has none."""
    conditions = obj.get("status", {}).get("conditions") or []
    return next((c["status"] for c in conditions if c["type"] == kind), None)


async def unfinished(api: Api, namespace: str) -> list[str]:
    """Tell what is not yet as it shall be in the end."""
    resources = await api.list(PDDEPLOYMENT, namespace)
    pods = await api.list(kinds.POD, namespace)
    found = [text for resource in resources for text in _lacking(resource, pods)]
    owners = {resource["metadata"]["uid"] for resource in resources}
    routers = [p for p in pods if _component(p) == names.COMPONENT_ROUTER]
    rest = [p for p in pods if p not in routers and not owners & _owners(p)]
    if len(routers) != len(resources):
        found.append(f"{len(routers)} router pods")
    return [*found, *(f"{pod['metadata']['name']} is left over" for pod in rest)]


def _lacking(resource: Json, pods: Sequence[Json]) -> Iterator[str]:
    name, uid = resource["metadata"]["name"], resource["metadata"]["uid"]
    for kind in ("PortsAllocated", "PrefillReady", "DecodeReady"):
        if condition(resource, kind) != "True":
            yield f"{name} is not {kind}"
    observed = {c["observedGeneration"] for c in resource.get("status", {}).get("conditions") or []}
    if observed != {resource["metadata"]["generation"]}:
        yield f"{name} speaks of generation {observed}"
    mine = [pod for pod in pods if uid in _owners(pod)]
    ready = [p for p in mine if condition(p, "Ready") == "True"]
    if len(ready) != len(mine) or len(mine) != len(ROLES) * EACH:
        yield f"{name} has {len(mine)} engines, {len(ready)} of them ready"
    for pod in mine:
        if "deletionTimestamp" in pod["metadata"]:
            yield f"{pod['metadata']['name']} stops"


def _owners(pod: Json) -> set[str]:
    return {str(ref["uid"]) for ref in pod["metadata"].get("ownerReferences") or []}


def _component(pod: Json) -> str | None:
    labels: dict[str, str] = pod["metadata"].get("labels") or {}
    return labels.get(names.LABEL_COMPONENT)


async def settled(api: Api, namespace: str, operators: Operators) -> None:
    """Wait until all is as wished."""

    async def holds() -> bool:
        await operators.alive()
        await asyncio.sleep(0.5)
        return not await unfinished(api, namespace)

    try:
        await until(holds, "all engines to be ready", SETTLE_S)
    except TimeoutError as error:
        error.add_note(f"unfinished: {await unfinished(api, namespace)}")
        error.add_note(operators.processes[-1].log_tail())
        raise


@asynccontextmanager
async def emptied_afterwards(api: Api, namespace: str) -> AsyncIterator[None]:
    """Make a namespace; in the end let its pods go while there is who plays their kubelets."""
    await api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})

    async def has_account() -> bool:
        return await api.find(kinds.SERVICE_ACCOUNT, namespace, "default") is not None

    async def no_pods() -> bool:
        return not await api.list(kinds.POD, namespace)

    await until(has_account, f"the service account of {namespace}")
    try:
        yield
    finally:
        await api.delete(NAMESPACES, "", namespace)
        await until(no_pods, f"the pods of {namespace} to go", PATIENCE_S)


def born_since(history: Sequence[Sight], before: int) -> set[str]:
    """Give the engines that were not there in the first so many events."""
    return {s.uid for s in history[before:] if s.owner} - {s.uid for s in history[:before]}


def enough(history: Sequence[Sight], before: int) -> bool:
    """Return whether the churn was long enough for its end to mean something."""
    walks = max(cycles(history, RANGE).values())
    return len(born_since(history, before)) >= BIRTHS_A_MINUTE * CHURN_S / 60 and walks >= min(
        WALKS_A_MINUTE * CHURN_S / 60, WALKS
    )


async def test_no_two_pods_of_a_node_share_a_port_at_any_moment_of_a_churn(
    kubeconfig: Path, played_nodes: None, tmp_path: Path, fresh_name: Callable[[], str]
) -> None:
    del played_nodes
    name = fresh_name()
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(Api.connected(kubeconfig))
        await stack.enter_async_context(emptied_afterwards(api, name))
        record = await stack.enter_async_context(Recorder.recording(api, name))
        starter = await stack.enter_async_context(ForkServer.starter(tmp_path / "server.log"))
        operators = Operators(api, name, kubeconfig, tmp_path, starter, RANGE)
        await operators.start()
        churn = Churn(api, name, operators, record)
        await churn.bring_up()
        await settled(api, name, operators)
        before = len(record.history)
        began = time.monotonic()
        stack.push_async_callback(churn.undo)
        await churn.run(CHURN_S, lambda: enough(record.history, before))
        took_s = time.monotonic() - began
        await churn.undo()
        await churn.scale_up()
        began = time.monotonic()
        await settled(api, name, operators)
        settled_s = time.monotonic() - began
        await until(record.complete, "the record to be complete")
        history = list(record.history)

    born = born_since(history, before)
    placed = {s.uid for s in history if s.node}
    walks = max(cycles(history, RANGE).values())
    doubled = doubles(history)
    print(
        f"{took_s:.0f} s, {dict(churn.done)}; {len(history)} events, {len(born)} engines born, "
        f"{len(born - placed)} of them without a node, {walks:.1f} walks through the "
        f"range at the most, {len(doubled)} doubles; "
        f"settled in {settled_s:.0f} s"
    )
    assert not clashes(history), told(clashes(history), history)
    early = early_returns(history, RANGE)
    assert not early, early[:10]
    # Two operators at once may give out a block twice; one alone never does.
    alone = [s for s in doubled if not any(s.version in window for window in churn.overlaps)]
    assert not alone, told(alone, history)
    for log, text in operators.logs().items():
        assert "Traceback" not in text, f"{log}:\n{text[text.index('Traceback') - 500 :][:3000]}"
    assert enough(history, before), f"{len(born)} born, {walks:.1f} walks: too little to prove much"
    assert born - placed, "no engine met ports that were taken everywhere"


def told(found: Sequence[Shared], history: Sequence[Sight]) -> str:
    """Show the first few, with the lives of both pods."""
    return "\n\n".join(f"{s}\n{excerpt(history, s.first, s.second)}" for s in found[:5])

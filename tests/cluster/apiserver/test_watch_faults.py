"""Watches that break, lie or fall silent, and an API server that is away for a while.

What a watch tells is acted on at once, also after it broke; what no watch told is seen at the
resync. The operator is the real process; it is started anew when it ends, as a kubelet would.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from moriio_operator.api.kinds import WATCHED
from moriio_operator.kube import kinds
from stage.apicall import BROKEN, EXPIRED, Call, Refusal
from stage.faultproxy import FaultProxy
from stage.lane import Lane
from stage.operator_process import Anew

pytestmark = pytest.mark.parts(3)

# Far from any resync of the tests that use it: only an event can be so quick.
AT_ONCE_S = 10.0
NEVER_S = 3600.0
RESYNC_S = 6.0
# The jitter of the resync, and two passes with the rest between them on a machine that may stand
# still for a while. Sooner than a second resync.
WITH_RESYNC_S = RESYNC_S * 1.1 + 5


@asynccontextmanager
async def serving(
    kubeconfig: Path, namespace: str, folder: Path, **options: Any
) -> AsyncIterator[tuple[Lane, Anew]]:
    """An operator with a PDDeployment that is settled, and whoever starts operators."""
    async with (
        Anew.starter() as starter,
        Lane.opened(kubeconfig, namespace, folder, starter, **options) as lane,
    ):
        await lane.start()
        await lane.watching()
        await lane.create("llm")
        await lane.settled("llm")
        yield lane, starter


async def delete_an_engine(lane: Lane) -> None:
    victim = (await lane.state("llm")).pod_names[0]
    await lane.api.delete(kinds.POD, lane.namespace, victim)


async def delete_the_service(lane: Lane) -> None:
    await lane.api.delete(kinds.SERVICE, lane.namespace, "llm")


async def scale(lane: Lane) -> None:
    await lane.change("llm", decode={"replicas": 2})


Act = Callable[[Lane], Awaitable[None]]
# What somebody does, by the kind whose watch tells of it.
ACTS: dict[str, Act] = {
    "pods": delete_an_engine,
    "services": delete_the_service,
    "pddeployments": scale,
}


async def traces(lane: Lane) -> tuple[list[str], str]:
    """Give what the acts change: the engines, and which Service it is."""
    service = await lane.api.find(kinds.SERVICE, lane.namespace, "llm")
    uid = "" if service is None else service["metadata"]["uid"]
    return (await lane.state("llm")).pod_names, uid


async def heals(lane: Lane, kind: str, within_s: float) -> None:
    """Do what somebody does; see that all is as it should be in time, and not as it was."""
    before, children = await traces(lane), (await lane.state("llm")).children
    await ACTS[kind](lane)

    async def healed() -> bool:
        state = await lane.state("llm")
        right = state.children == children and not state.lacking
        return right and await traces(lane) != before

    async def told() -> bool:
        return not (await lane.state("llm")).unfinished

    await lane.until(healed, "all to be there again", within_s)
    # That a new engine is there is news as well, and where nothing is heard it waits in turn.
    await lane.until(told, "the status to tell it", within_s)


def refuse_the_next(proxy: FaultProxy, kind: str) -> None:
    proxy.refuse_watches(kind, EXPIRED)
    proxy.end_watches(kind)


def tell_expired(proxy: FaultProxy, kind: str) -> None:
    proxy.end_watches(kind, EXPIRED)


def tell_broken(proxy: FaultProxy, kind: str) -> None:
    proxy.end_watches(kind, BROKEN)


@pytest.mark.parametrize("fault", [refuse_the_next, tell_expired, tell_broken])
@pytest.mark.parametrize("kind", ACTS)
async def test_after_an_error_of_a_watch_events_are_told_again(
    kind: str,
    fault: Callable[[FaultProxy, str], None],
    kubeconfig: Path,
    tmp_path: Path,
    fresh_name: Callable[[], str],
) -> None:
    options = {"resync_s": NEVER_S}
    async with serving(kubeconfig, fresh_name(), tmp_path, **options) as (lane, starter):
        async with lane.supervised():
            asked = times_watched(lane, kind)
            fault(lane.proxy, kind)
            await watched_again(lane, kind, asked)
            await heals(lane, kind, AT_ONCE_S)
        # Of an error that it does not understand the process may end, but not as if all were well.
        assert {await starter.exit_code(process) for process in lane.processes[:-1]} <= {1}


def times_watched(lane: Lane, kind: str) -> int:
    return sum((call.verb, call.resource) == ("watch", kind) for call in lane.proxy.calls)


async def watched_again(lane: Lane, kind: str, before: int) -> None:
    """Wait until the watch that was broken is there again."""

    async def again() -> bool:
        return times_watched(lane, kind) > before and lane.proxy.watches(kind) > 0

    await lane.until(again, f"the watch of {kind} to come back")
    await lane.watching()


@pytest.mark.parametrize("kind", ACTS)
async def test_what_a_dead_watch_does_not_tell_is_seen_at_the_resync(
    kind: str, kubeconfig: Path, tmp_path: Path, fresh_name: Callable[[], str]
) -> None:
    options = {"resync_s": RESYNC_S}
    async with serving(kubeconfig, fresh_name(), tmp_path, **options) as (lane, _):
        # The children's own watches would tell of what a pass does.
        for every in ("pddeployments", *(k.plural for k in WATCHED)):
            lane.proxy.silence(every)
        await heals(lane, kind, WITH_RESYNC_S)
        assert lane.proxy.swallowed
        assert len(lane.processes) == 1


@pytest.mark.parametrize("kind", ["pods", "services"])
async def test_a_deletion_that_no_watch_tells_is_seen_at_the_resync(
    kind: str, kubeconfig: Path, tmp_path: Path, fresh_name: Callable[[], str]
) -> None:
    options = {"resync_s": RESYNC_S}
    async with serving(kubeconfig, fresh_name(), tmp_path, **options) as (lane, _):
        lane.proxy.hides_deletions.add(kind)
        await heals(lane, kind, WITH_RESYNC_S)
        assert lane.proxy.swallowed == 1


async def test_a_short_absence_of_the_api_server_is_outlived(
    kubeconfig: Path, tmp_path: Path, fresh_name: Callable[[], str]
) -> None:
    options = {"resync_s": NEVER_S}
    async with serving(kubeconfig, fresh_name(), tmp_path, **options) as (lane, _):
        async with lane.proxy.refusing():
            await delete_an_engine(lane)
            await delete_the_service(lane)
            await scale(lane)
        after = await lane.settled("llm")
        assert "Service NAME" in after.children
        assert len(after.pods) == 3
        assert len(lane.processes) == 1


async def test_a_long_absence_of_the_api_server_ends_the_leader_and_the_next_one_completes(
    kubeconfig: Path, tmp_path: Path, fresh_name: Callable[[], str]
) -> None:
    name = fresh_name()
    election = {
        "leaseNamespace": name,
        "leaseName": "operator",
        "leaseDurationSeconds": 10,
        "renewDeadlineSeconds": 8,
        "retryPeriodSeconds": 0.5,
    }
    options = {"resync_s": NEVER_S, "changes": {"leaderElection": election}}
    async with serving(kubeconfig, name, tmp_path, **options) as (lane, starter):
        first = lane.process
        async with lane.proxy.refusing():
            await delete_an_engine(lane)
            await delete_the_service(lane)
            await scale(lane)
            await first.ended(30)
            assert await starter.exit_code(first) == 1
        async with lane.supervised():
            after = await lane.settled("llm")
        assert "Service NAME" in after.children
        assert len(after.pods) == 3


BROKEN_ONES = 50
GOOD_ONES = 9
# Of the time that a good one takes alone.
SLOWER_AT_MOST = 2.0


@pytest.mark.load(2)
async def test_fifty_broken_deployments_do_not_slow_a_good_one(
    kubeconfig: Path, tmp_path: Path, fresh_name: Callable[[], str]
) -> None:
    options = {"resync_s": NEVER_S}
    async with (
        serving(kubeconfig, fresh_name(), tmp_path, **options) as (quiet, _),
        serving(kubeconfig, fresh_name(), tmp_path, **options) as (busy, _),
    ):
        busy.proxy.before = raising
        names = [await broken(busy, index) for index in range(BROKEN_ONES)]

        async def all_failed() -> bool:
            return all([await failed(busy, name) for name in names])

        await busy.until(all_failed, "all the broken ones to fail")
        # By turns, so that both meet the machine in the same mood.
        times = [
            (await good_s(quiet, f"good-{turn}"), await good_s(busy, f"good-{turn}"))
            for turn in range(GOOD_ONES)
        ]
        for name in names:
            assert not (await busy.state(name)).pods, f"{name} is not broken"
    alone, beside = (statistics.median(column) for column in zip(*times, strict=True))
    print(f"alone {alone:.3f} s, beside {BROKEN_ONES} broken ones {beside:.3f} s")
    assert beside <= alone * SLOWER_AT_MOST


async def raising(call: Call) -> Refusal | None:
    """Let every pass over an object of this name fail as the API server's own fault does."""
    return BROKEN if call.writes and call.name.startswith("raising-") else None


async def broken(lane: Lane, index: int) -> str:
    """Make a PDDeployment that cannot be completed, each time in another way; give its name."""
    kind = ("raising", "taken", "template", "policy")[index % 4]
    name = f"{kind}-{index}"
    spec: dict[str, Any] = {}
    if kind == "taken":
        await lane.api.create(kinds.SERVICE, strangers_service(lane.namespace, name))
    elif kind == "template":
        refused = {"spec": {"tolerations": [{"operator": "No"}]}}
        spec = {"decode": {"podTemplate": refused}}
    elif kind == "policy":
        spec = {"model": {"name": "m", "servedName": "m", "cache": {"hostPath": {"path": "/etc"}}}}
    await lane.create(name, **spec)
    return name


def strangers_service(namespace: str, name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"ports": [{"port": 1}]},
    }


async def failed(lane: Lane, name: str) -> bool:
    if name.startswith("raising-"):
        refused = {e.call.name for e in lane.proxy.writes if e.status == 0}
        return any(each.startswith(name) for each in refused)
    status: str | None = (await lane.state(name)).condition("Accepted").get("status")
    return status == "False"


async def good_s(lane: Lane, name: str) -> float:
    """Give the time from the creation of a good one to that of its last object."""
    began = asyncio.get_running_loop().time()
    uid: str = (await lane.create(name))["metadata"]["uid"]

    async def complete() -> bool:
        return sum(born.owner_uid == uid for born in lane.born()) == 2

    await lane.until(complete, f"{name} to be complete")
    # The proxy's time of the last answer: the wait above looks now and then only.
    return max(e.ended for e in lane.proxy.writes if e.call.resource == "pods") - began

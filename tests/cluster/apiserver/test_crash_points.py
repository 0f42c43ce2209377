"""The operator is killed before and after each of its writes; the next one completes the work.

The writes are those that a run without a crash was seen to make. `Before`: the API server never
sees the request. `After`: it has answered, and the operator never learns. Where the act can be done
again, all points of a lane happen to one PDDeployment, and its ports are followed over many lives
of the operator.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

import pytest
from moriio_operator.api.kinds import PDDEPLOYMENT
from moriio_operator.kube import kinds
from stage.apicall import Call, Refusal
from stage.faultproxy import CutError
from stage.lane import Lane, State
from stage.operator_process import ForkServer

pytestmark = [pytest.mark.parts(5), pytest.mark.load(2)]

# Operators at once: they wait more than they work.
LANES = 5
# A whole walk through the port range would use blocks again, as it should.
PORTS = 10_000


@dataclass(frozen=True, slots=True)
class Scenario:
    """What the user does, over and over: `prepare`, then `act` while the operator is killed."""

    # Give the name of the PDDeployment that the act is done to.
    prepare: Callable[[Lane, int], Awaitable[str]]
    act: Callable[[Lane, str, int], Awaitable[None]]
    # The fewest writes that it can take; less would mean that the enumeration missed some.
    writes: int


async def _nothing_there(lane: Lane, number: int) -> str:
    if number:
        await lane.api.delete(PDDEPLOYMENT, lane.namespace, f"llm-{number - 1}")
    return f"llm-{number}"


async def _one_of_each(lane: Lane, number: int) -> str:
    if number == 0:
        await lane.create("llm")
    await lane.settled("llm")
    return "llm"


async def _young(lane: Lane, number: int) -> str:
    """The first change of a child differs from later ones: it hands over the fields' ownership."""
    name = await _nothing_there(lane, number)
    await lane.create(name)
    await lane.settled(name)
    return name


async def _scaled_down(lane: Lane, number: int) -> str:
    if number:
        await lane.change("llm", decode={"replicas": 1})
    return await _one_of_each(lane, number)


async def _scaled_up(lane: Lane, number: int) -> str:
    if number == 0:
        await lane.create("llm")
    await lane.change("llm", decode={"replicas": 3})
    await lane.settled("llm")
    return "llm"


async def _create(lane: Lane, name: str, _number: int) -> None:
    await lane.create(name)


async def _scale_up(lane: Lane, name: str, _number: int) -> None:
    await lane.change(name, decode={"replicas": 3})


async def _scale_down(lane: Lane, name: str, _number: int) -> None:
    await lane.change(name, decode={"replicas": 1})


async def _delete_an_engine(lane: Lane, name: str, _number: int) -> None:
    victim = (await lane.state(name)).pod_names[0]
    await lane.api.delete(kinds.POD, lane.namespace, victim)


async def _change_the_spec(lane: Lane, name: str, number: int) -> None:
    await lane.change(name, engine={"image": f"engine:{number}"})


# The longest first, as each is a process of its own.
SCENARIOS = {
    "new-revision": Scenario(_young, _change_the_spec, 12),
    "create": Scenario(_nothing_there, _create, 9),
    "scale-up": Scenario(_scaled_down, _scale_up, 3),
    "scale-down": Scenario(_scaled_up, _scale_down, 3),
    "deleted-engine": Scenario(_one_of_each, _delete_an_engine, 2),
}


@dataclass(frozen=True, slots=True)
class Write:
    """The so many'th write of its sort since the act."""

    verb: str
    resource: str
    subresource: str
    count: int


@dataclass(frozen=True, slots=True)
class Point:
    """Where the operator is killed."""

    write: Write
    when: Literal["before", "after"]


@dataclass(frozen=True, slots=True)
class Course:
    """What a run came to: the writes on the way, the engines made, the state at the end."""

    writes: list[Write]
    births: int
    state: State


class Crash:
    """The hooks that kill the operator at a point."""

    def __init__(self, lane: Lane, point: Point) -> None:
        self.reached = asyncio.Event()
        self._lane = lane
        self._point = point
        self._seen = 0
        self._due: Call | None = None
        lane.proxy.before, lane.proxy.after = self._before, self._after

    async def _before(self, call: Call) -> Refusal | None:
        wanted = self._point.write
        sort = (call.verb, call.resource, call.subresource)
        if call.writes and sort == (wanted.verb, wanted.resource, wanted.subresource):
            self._seen += 1
            if self._seen == wanted.count:
                self._due = call
                if self._point.when == "before":
                    self._kill()
        if self.reached.is_set():
            raise CutError  # what the dead one had sent
        return None

    async def _after(self, call: Call, _status: int) -> None:
        if call is self._due:
            self._kill()
            raise CutError

    def _kill(self) -> None:
        self._lane.process.kill()
        self.reached.set()

    def over(self) -> None:
        """Let everything through again."""
        for hook in ("before", "after"):
            setattr(self._lane.proxy, hook, _pass)


async def _pass(*_: object) -> None:
    return None


def sorts(lane: Lane, mark: int) -> list[Write]:
    """Give the writes since a mark, each sort counted."""
    seen: Counter[tuple[str, str, str]] = Counter()
    found = []
    for exchange in lane.proxy.writes[mark:]:
        sort = (exchange.call.verb, exchange.call.resource, exchange.call.subresource)
        seen[sort] += 1
        found.append(Write(*sort, seen[sort]))
    return found


async def undisturbed(lane: Lane, scenario: Scenario, number: int) -> Course:
    """Do the act once, without a crash."""
    name = await scenario.prepare(lane, number)
    writes, births = len(lane.proxy.writes), len(lane.born())
    await scenario.act(lane, name, number)
    state = await lane.settled(name)
    return Course(sorts(lane, writes), len(lane.born()) - births, state)


async def crashed(lane: Lane, scenario: Scenario, number: int, point: Point) -> Course:
    """Do the act, kill the operator at the point, and let another one complete it."""
    name = await scenario.prepare(lane, number)
    writes, births = len(lane.proxy.writes), len(lane.born())
    crash = Crash(lane, point)
    await scenario.act(lane, name, number)

    async def reached() -> bool:
        return crash.reached.is_set()

    await lane.until(reached, f"{point} in {sorts(lane, writes)}")
    crash.over()
    await lane.restart()
    state = await lane.settled(name)
    return Course(sorts(lane, writes), len(lane.born()) - births, state)


def faults(lane: Lane, expected: Course, found: Course) -> list[str]:
    """Tell what a crash spoiled."""
    told = []
    if found.births != expected.births:
        told.append(f"{found.births} engines were created, {expected.births} would do")
    if found.state.children != expected.state.children:
        told.append(f"children are {found.state.children}, not {expected.state.children}")
    told += [f"{c} is left" for c in found.state.children if _outlived(c)]
    for kind in ("Accepted", "Progressing"):
        one, other = expected.state.condition(kind), found.state.condition(kind)
        if (one["status"], one["reason"]) != (other["status"], other["reason"]):
            told.append(f"{kind} is {other}, not {one}")
    uid = found.state.resource["metadata"]["uid"]
    born = [b for b in lane.born() if b.owner_uid == uid]
    blocks = sorted((b.ports.start, b.ports.stop, b.pod) for b in born)
    told += [f"{a} and {b} share ports" for a, b in pairwise(blocks) if b[0] < a[1]]
    cursor = found.state.resource["status"]["portAllocation"]["cursor"]
    ends = [int(b.pod.rpartition("-")[2]) + len(b.ports) for b in born]
    if not max(ends) <= cursor < PORTS:
        told.append(f"the cursor is {cursor}, and {max(ends)} ports were given out")
    return told


def _outlived(child: str) -> bool:
    """Return whether a child is of an old revision; a ControllerRevision has hashes of its own."""
    return child.endswith("OLD") and not child.startswith("ControllerRevision ")


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_crash_at_any_write_is_completed_by_the_next_operator(
    name: str, kubeconfig: Path, tmp_path: Path, fresh_name: Callable[[], str]
) -> None:
    scenario = SCENARIOS[name]
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(ForkServer.starter(tmp_path / "forks.log"))
        lanes = [
            await stack.enter_async_context(Lane.opened(kubeconfig, fresh_name(), tmp_path, server))
            for _ in range(LANES)
        ]
        await asyncio.gather(*(lane.start() for lane in lanes))
        expected = await undisturbed(lanes[0], scenario, 0)
        assert len(expected.writes) >= scenario.writes, expected.writes
        assert not faults(lanes[0], expected, expected)
        points = [Point(write, when) for write in expected.writes for when in ("before", "after")]

        async def walk(lane: Lane, share: list[Point], first: int) -> list[str]:
            found = []
            for number, point in enumerate(share, start=first):
                course = await crashed(lane, scenario, number, point)
                found += [f"{point}: {fault}" for fault in faults(lane, expected, course)]
            return found

        walks = (
            walk(lane, points[index::LANES], 1 if index == 0 else 0)
            for index, lane in enumerate(lanes)
        )
        found = [fault for each in await asyncio.gather(*walks) for fault in each]
    assert not found, "\n".join(found)

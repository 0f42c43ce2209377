"""Deployments that share nodes, and two operators that overlap: no node ever has a port twice.

The real passes run over an API in memory. A scheduler places engines as Kubernetes' does: a node
with an engine that holds one of the ports is not taken (the NodePorts filter), and what fits
nowhere is told so. Operators crash between writes, and one that was paused goes on beside its
successor, each with a lock of its own. Engines end, are deleted, vanish and move to another node;
strangers hold ports, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st
from moriio_operator.api.ports import PortRange
from moriio_operator.control.queue import Key
from moriio_operator.kube.errors import ConflictError
from moriio_operator.kube.objects import Object

from unit.memory_kube import CrashError, MemoryKube
from unit.peers import Peers, ports
from unit.played import Operator
from unit.samples import READY, Json, ended, later, resource

RANGE = PortRange(20_000, 20_063)
NAMES = ("a", "b", "c")
NODES = ("n1", "n2")
NO_PORTS = "0/2 nodes are available: 2 node(s) didn't have free ports for the requested pod ports."

Step: TypeAlias = Callable[["World"], None]


def deployment(name: str) -> Json:
    change = {"network": {"mode": "Host"}, "devices": {"fabric": "RoCE"}}
    made = resource(change, name=name)
    made["metadata"]["uid"] = f"uid-of-{name}"
    return made


@dataclass
class World:
    """Three deployments on two nodes, and what must never be forgotten about their ports."""

    kube: MemoryKube = field(
        default_factory=lambda: MemoryKube(*(deployment(name) for name in NAMES))
    )
    operators: dict[str, Operator] = field(default_factory=dict)
    seconds: int = 0
    # Ports that something outside of Kubernetes' accounts holds, by node.
    strangers: dict[str, set[int]] = field(default_factory=lambda: {node: set() for node in NODES})
    peers: dict[str, Peers] = field(default_factory=lambda: {name: Peers() for name in NAMES})

    def __post_init__(self) -> None:
        for name in NAMES:
            self.restart(name)

    def restart(self, name: str) -> None:
        self.operators[name] = Operator(self.kube, ports=RANGE, key=Key("team", name))
        self.operators[name].time = later(self.seconds)

    def run(self, name: str) -> None:
        try:
            asyncio.run(self.operators[name].step())
        except CrashError:
            self.restart(name)
        except ConflictError:
            pass
        self.stamp()

    def stamp(self) -> None:
        """Every pod gets its time of creation, as the API server gives it."""
        for pod in self.kube.of_kind("Pod"):
            text = later(self.seconds).isoformat()
            pod["metadata"].setdefault("creationTimestamp", text)

    def schedule(self) -> None:
        for pod in self.kube.of_kind("Pod"):
            if pod["spec"].get("nodeName") or pod["metadata"].get("deletionTimestamp"):
                continue
            fitting = [node for node in NODES if not ports(pod) & self.taken(node)]
            if fitting:
                spec = {**pod["spec"], "nodeName": fitting[0]}
                self.kube.put({**pod, "spec": spec, "status": READY})
            else:
                told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
                status = {"phase": "Pending", "conditions": [{**told, "message": NO_PORTS}]}
                self.kube.put({**pod, "status": status})

    def taken(self, node: str) -> set[int]:
        held = [ports(pod) for pod in self.on(node)]
        return self.strangers[node].union(*held)

    def on(self, node: str) -> list[Object]:
        """The pods of a node that are not gone; one that ended is out of the scheduler's sums."""
        found = [p for p in self.kube.of_kind("Pod") if p["spec"].get("nodeName") == node]
        return [pod for pod in found if pod["status"]["phase"] != "Failed"]

    def pick(self, index: int) -> Object | None:
        pods = [p for p in self.kube.of_kind("Pod") if not p["metadata"].get("deletionTimestamp")]
        return pods[index % len(pods)] if pods else None

    def check(self) -> None:
        self.check_nodes()
        for name in NAMES:
            self.peers[name].look(self.of(name))

    def check_nodes(self) -> None:
        for node in NODES:
            held = [port for pod in self.on(node) for port in ports(pod)]
            assert len(held) == len(set(held))

    def recorded(self) -> set[str]:
        return {e.pod for operator in self.operators.values() for e in operator.status.engines}

    def of(self, name: str) -> list[Object]:
        return [p for p in self.kube.of_kind("Pod") if p["metadata"]["name"].startswith(f"{name}-")]


def passes(name: str) -> Step:
    return lambda world: world.run(name)


def crashes(name: str, write: int, *, answered: bool) -> Step:
    def act(world: World) -> None:
        world.kube.crash_at(write, answered=answered)
        world.run(name)
        world.kube.crash_no_more()

    return act


def overlaps(name: str, other: str, write: int) -> Step:
    """In the middle of a pass another process, with a lock of its own, does one."""

    def act(world: World) -> None:
        async def meanwhile() -> None:
            with suppress(ConflictError):
                await Operator(world.kube, ports=RANGE, key=Key("team", other)).step()

        world.kube.meanwhile = (len(world.kube.writes) + write, meanwhile)
        world.run(name)
        world.kube.meanwhile = None
        world.stamp()

    return act


def schedules() -> Step:
    return World.schedule


def ends(index: int) -> Step:
    def act(world: World) -> None:
        pod = world.pick(index)
        if pod is not None and pod["spec"].get("nodeName"):
            world.kube.put({**pod, "status": ended()})

    return act


def vanishes(index: int) -> Step:
    """Its node is lost, and its pod with it: the next one may come to any node.

    Not while no operator has ever looked at it: of one that came, served and vanished in such a
    gap nobody can know.
    """

    def act(world: World) -> None:
        pod = world.pick(index)
        if pod is not None and pod["metadata"]["name"] in world.recorded():
            world.kube.remove("Pod", pod["metadata"]["name"])

    return act


def leaves() -> Step:
    def act(world: World) -> None:
        for pod in world.kube.of_kind("Pod"):
            if pod["metadata"].get("deletionTimestamp"):
                world.kube.remove("Pod", pod["metadata"]["name"])

    return act


def scales(name: str, replicas: int) -> Step:
    return lambda world: world.operators[name].change({"decode": {"replicas": replicas}})


def waits(seconds: int) -> Step:
    def act(world: World) -> None:
        world.seconds += seconds
        for operator in world.operators.values():
            operator.time += timedelta(seconds=seconds)

    return act


def stranger(node: str, port: int) -> Step:
    return lambda world: world.strangers[node].add(port)


NAME = st.sampled_from(NAMES)
INDEX = st.integers(0, 9)
STEPS = st.one_of(
    st.builds(passes, NAME),
    st.builds(passes, NAME),
    st.builds(schedules),
    st.builds(schedules),
    st.builds(crashes, NAME, st.integers(1, 12), answered=st.booleans()),
    st.builds(overlaps, NAME, NAME, st.integers(0, 12)),
    st.builds(ends, INDEX),
    st.builds(vanishes, INDEX),
    st.builds(leaves),
    st.builds(scales, NAME, st.integers(1, 3)),
    st.builds(waits, st.sampled_from([1, 15, 700])),
    st.builds(stranger, st.sampled_from(NODES), st.integers(RANGE.start, RANGE.end)),
)


@settings(max_examples=60)
@given(st.lists(STEPS, min_size=6, max_size=30))
def test_no_node_has_a_port_twice_and_all_is_well_in_the_end(steps: list[Step]) -> None:
    world = World()
    for step in steps:
        step(world)
        world.check()
    for held in world.strangers.values():
        held.clear()
    for _ in range(12):
        before = len(world.kube.writes)
        waits(700)(world)
        for name in NAMES:
            world.run(name)
        leaves()(world)
        world.schedule()
        world.check()
        if len(world.kube.writes) == before:
            break
    for name in NAMES:
        operator = world.operators[name]
        wished = operator.kube.one("PDDeployment", name)["spec"]["decode"]["replicas"]
        assert len(world.of(name)) == 1 + wished
        assert operator.condition("PortsAllocated").status == "True"
    assert world.kube.writes[before:] == []


def test_the_same_history_gives_the_same_pods() -> None:
    def played() -> list[str]:
        world = World()
        for name in NAMES:
            world.run(name)
        world.schedule()
        ends(1)(world)
        for name in NAMES:
            world.run(name)
        return sorted(f"{p['metadata']['name']}:{min(ports(p))}" for p in world.kube.of_kind("Pod"))

    assert played() == played()

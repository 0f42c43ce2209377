"""Whatever happens between passes, and wherever the operator dies, the engines come as wished.

The real passes run over an API in memory: users change the spec, engines become ready, end or
vanish, the operator crashes before or after any write. Checked after each step: never more living
engines than a spec asked for that could be accepted, never two revisions alive, never a port twice
within a cycle, each end counted once. What could be accepted the test knows by itself: it is who
breaks the spec.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st
from moriio_operator.api.ports import PortRange
from moriio_operator.facts.terms import ROLES
from moriio_operator.kube.objects import Object

from unit.memory_kube import CrashError, MemoryKube
from unit.played import Operator
from unit.samples import READY, Json, ended, resource

RANGE = PortRange(20_000, 20_127)

Step: TypeAlias = Callable[["World"], None]


@dataclass
class World:
    """The operator, its cluster, and what must never be forgotten about it."""

    operator: Operator = field(
        default_factory=lambda: Operator(MemoryKube(resource()), ports=RANGE)
    )
    bases: dict[str, int] = field(default_factory=dict)
    ends: Counter[str] = field(default_factory=Counter)
    refused: bool = False
    # The most engines of a role that a spec asked for which is not refused, since the last pass
    # that ran to its end.
    allowed: Counter[str] = field(default_factory=Counter)

    def living(self) -> list[Object]:
        return [pod for pod in self.operator.kube.of_kind("Pod") if is_alive(pod)]

    def pick(self, index: int) -> Object | None:
        living = self.living()
        return living[index % len(living)] if living else None

    def run(self) -> None:
        self.grant()
        try:
            asyncio.run(self.operator.step())
        except CrashError:
            self.operator = Operator(self.operator.kube, ports=RANGE)
            return
        if not self.refused:
            # Surplus engines were told to go in this very pass.
            self.allowed = Counter({role: self.wished(role) for role in ROLES})

    def grant(self) -> None:
        if not self.refused:
            for role in ROLES:
                self.allowed[role] = max(self.allowed[role], self.wished(role))

    def check(self) -> None:
        self.check_counts()
        self.check_ports()
        self.check_ends()

    def check_counts(self) -> None:
        pods = self.operator.kube.of_kind("Pod")
        assert len({label(pod, "revision") for pod in pods}) <= 1
        alive = Counter(label(pod, "role") for pod in self.living())
        for role, count in alive.items():
            assert count <= self.allowed[role]

    def wished(self, role: str) -> int:
        replicas: int = self.operator.kube.one("PDDeployment", "llm")["spec"][role]["replicas"]
        return replicas

    def check_ports(self) -> None:
        pods = self.operator.kube.of_kind("Pod")
        self.bases.update((pod["metadata"]["name"], ports(pod)[0]) for pod in pods)
        last: dict[int, int] = {}
        for name in sorted(self.bases, key=serial):
            for place in range(serial(name), serial(name) + 4):
                port = self.bases[name] + place - serial(name)
                assert place - last.get(port, -RANGE.length) >= RANGE.length
                last[port] = place
        held = [port for pod in pods for port in ports(pod)]
        assert len(held) == len(set(held))
        assert all(
            serial(name) + 4 <= self.operator.status.port_allocation.cursor for name in self.bases
        )

    def check_ends(self) -> None:
        for role in self.operator.status.roles:
            assert role.failures <= self.ends[role.name]
        notes = Counter(event["note"] for event in self.operator.kube.of_kind("Event"))
        assert all(count == 1 for note, count in notes.items() if note.startswith("llm-"))


def is_alive(pod: Object) -> bool:
    return not pod["metadata"].get("deletionTimestamp") and pod["status"]["phase"] != "Failed"


def label(pod: Object, name: str) -> str:
    return str(pod["metadata"]["labels"][f"moriio.dev/{name}"])


def serial(name: str) -> int:
    return int(name.rsplit("-", 1)[1])


def ports(pod: Object) -> list[int]:
    return [port["containerPort"] for port in pod["spec"]["containers"][0]["ports"]]


def passes() -> Step:
    return World.run


def crashes(write: int, *, answered: bool) -> Step:
    def act(world: World) -> None:
        world.operator.kube.crash_at(write, answered=answered)
        world.run()
        world.operator.kube.crash_no_more()

    return act


def reaches(index: int, status: Json) -> Step:
    def act(world: World) -> None:
        pod = world.pick(index)
        if pod is not None:
            world.operator.kube.put({**pod, "status": status})
            world.ends[label(pod, "role")] += status["phase"] == "Failed"

    return act


def vanishes(index: int, *, deleted: bool) -> Step:
    """A pod is deleted by somebody, or is gone without a trace."""

    def act(world: World) -> None:
        pod = world.pick(index)
        if pod is None:
            return
        if deleted:
            pod["metadata"]["deletionTimestamp"] = "2026-05-04T12:00:00Z"
        else:
            world.operator.kube.remove("Pod", pod["metadata"]["name"])

    return act


def leaves() -> Step:
    def act(world: World) -> None:
        for pod in world.operator.kube.of_kind("Pod"):
            if pod["metadata"].get("deletionTimestamp"):
                world.operator.kube.remove("Pod", pod["metadata"]["name"])

    return act


def changes(change: Json) -> Step:
    return lambda world: world.operator.change(change)


def waits(seconds: int) -> Step:
    def act(world: World) -> None:
        world.operator.time += timedelta(seconds=seconds)

    return act


def refuses(*, refused: bool) -> Step:
    """The user asks for what is refused, or mends it."""
    template = {"metadata": {"labels": {"moriio.dev/role": "x"}}} if refused else None

    def act(world: World) -> None:
        world.refused = refused
        changes({"decode": {"podTemplate": template}})(world)

    return act


INDEX = st.integers(0, 5)
REPLICAS = st.fixed_dictionaries({"replicas": st.integers(1, 4)})
STEPS = st.one_of(
    st.builds(passes),
    st.builds(passes),
    st.builds(crashes, st.integers(1, 12), answered=st.booleans()),
    st.builds(reaches, INDEX, st.just(READY)),
    st.builds(reaches, INDEX, st.just(ended(1, "Error", "boom"))),
    st.builds(vanishes, INDEX, deleted=st.booleans()),
    st.builds(leaves),
    st.builds(changes, st.fixed_dictionaries({"prefill": REPLICAS, "decode": REPLICAS})),
    st.builds(
        changes,
        st.fixed_dictionaries({"engine": st.fixed_dictionaries({"image": st.sampled_from("ab")})}),
    ),
    st.builds(waits, st.sampled_from([1, 15, 700])),
    st.builds(refuses, refused=st.booleans()),
)


@settings(max_examples=50)
@given(st.lists(STEPS, min_size=4, max_size=25))
def test_passes_converge_to_the_wish_and_never_break_a_rule_on_the_way(steps: list[Step]) -> None:
    world = World()
    for step in steps:
        step(world)
        world.check()
    refuses(refused=False)(world)
    world.operator.time += timedelta(hours=1)
    world.grant()
    asyncio.run(world.operator.settle())
    world.check()
    for role in ROLES:
        living = [pod for pod in world.living() if label(pod, "role") == role]
        assert len(living) == world.wished(role)
        assert all(pod["status"] == READY for pod in living)
    assert world.operator.condition("Ready").status == "True"
    before = len(world.operator.kube.writes)
    asyncio.run(world.operator.step())
    assert world.operator.kube.writes[before:] == []

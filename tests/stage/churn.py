"""A churn of engines on the host network: PDDeployments, nodes, operators and strangers' ports.

Each act is a method of `Churn`, dealt from a shuffled deck; what it works on is what the recorder
sees.
"""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias

from bed import played
from moriio_operator.api.kinds import PDDEPLOYMENT
from moriio_operator.api.ports import PortRange
from moriio_operator.facts.terms import ROLES
from moriio_operator.kube import kinds
from moriio_operator.kube.kinds import Kind

from stage.api import Api, Json
from stage.deployments import on_host, stub
from stage.hostports import Recorder, Sight
from stage.lane import until
from stage.leaders import PATIENCE_S, Operators, elusive

SEED = 5
NODES = 20
DEPLOYMENTS = 25
EACH = 4  # engines a role
ENGINES = DEPLOYMENTS * len(ROLES) * EACH
# 800 ports are held at rest; as many are left for what stops while its successor starts, and for
# blocks that are kept back while engines live that know them.
RANGE = PortRange(20_000, 21_599)
BLOCK = 4
# Churn waits while fewer engines than this are on nodes: there would be nobody to clash with.
CROWD = ENGINES * 7 // 8
GATHER_S = 10.0
NODE = Kind("Node", "nodes")


def manifest(namespace: str, name: str, image: str, replicas: int = EACH) -> Json:
    """Give a PDDeployment of the churn: engines on played nodes, a router that fits nowhere."""
    made = on_host(stub(namespace, name))
    for role in ROLES:
        made["spec"][role] |= {"replicas": replicas, "podTemplate": {"spec": played.PLACEMENT}}
    made["spec"]["engine"]["image"] = image
    made["spec"]["router"]["resources"] = {"requests": {"cpu": "4000"}}
    return made


def stranger(namespace: str, name: str, node: str, ports: Iterable[int]) -> Json:
    """Give a pod of somebody else that declares ports of a node."""
    declared = [{"containerPort": port, "hostPort": port} for port in ports]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"stranger": "yes"}},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "tolerations": played.PLACEMENT["tolerations"],
            "containers": [{"name": "main", "image": "none", "ports": declared}],
        },
    }


@dataclass(eq=False, slots=True)
class Churn:
    """What happens to the engines; each act is a method, dealt from a shuffled deck."""

    api: Api
    namespace: str
    operators: Operators
    record: Recorder
    rng: random.Random = field(default_factory=lambda: random.Random(SEED))
    done: Counter[str] = field(default_factory=Counter)
    # Versions between which two operators may both have acted.
    overlaps: list[range] = field(default_factory=list)
    away: list[str] = field(default_factory=list)
    lingering: list[str] = field(default_factory=list)
    made: int = 0

    async def bring_up(self) -> None:
        """Create all the PDDeployments at once."""
        wishes = [manifest(self.namespace, name, self._image()) for name in self._names]
        await asyncio.gather(*(self.api.create(PDDEPLOYMENT, wish) for wish in wishes))

    async def run(self, seconds: float, enough: Callable[[], bool]) -> None:
        """Deal acts for so long, each kind once at the least, and on until it was enough.

        A slow machine needs more time for as much; after four times as long it is given up.
        """
        # First of all, while it is quiet: where blocks move about it may meet nobody.
        await self._act(Churn.take_ports_everywhere)
        mill = asyncio.create_task(self._mill(self._names[0]))
        try:
            await self._deal(seconds, enough)
        finally:
            mill.cancel()
            await asyncio.gather(mill, return_exceptions=True)

    async def _mill(self, name: str) -> None:
        """Delete the engines of one PDDeployment whenever they run: its cursor goes round."""
        while True:
            running = [s for s in self._of(name) if s.phase == "Running"]
            if len(running) >= EACH:
                await self._delete(running)
            await asyncio.sleep(0.1)

    async def _deal(self, seconds: float, enough: Callable[[], bool]) -> None:
        began = time.monotonic()

        def over() -> bool:
            took = time.monotonic() - began
            return took > 4 * seconds or (took > seconds and enough())

        while not over() or len(self.done) < len(DECK):
            cards = [act for act, count in DECK.items() for _ in range(count)]
            self.rng.shuffle(cards)
            for act in cards:
                if over() and self.done[act.__name__]:
                    continue
                await self._act(act)

    async def _act(self, act: Act) -> None:
        await self.operators.alive()
        await self._gather()
        await act(self)
        self.done[act.__name__] += 1

    async def _gather(self) -> None:
        """Wait until enough engines are on nodes."""
        with suppress(TimeoutError):
            return await until(self._crowded, "engines to come back", GATHER_S)
        # So many were scaled down, or wait for one of an old revision that stops slowly.
        await self._release()
        await self.scale_up()
        return await until(self._crowded, "engines to come back", PATIENCE_S)

    async def undo(self) -> None:
        """Undo what nobody but the churn can undo."""
        await self._return_nodes()
        await self._release()
        await self._dismiss()

    # The acts.

    async def delete_engines(self) -> None:
        """Delete some engines anywhere, some of them without a grace."""
        await self._delete(self._some(self.rng.randint(1, 12)))

    async def delete_all_engines_of_one(self) -> None:
        """Delete all engines of a PDDeployment."""
        await self._delete(self._of(self._pick()))

    async def stop_slowly(self) -> None:
        """Delete engines that go on stopping until the next ones are told to stop slowly."""
        await self._release()
        hold = {"metadata": {"finalizers": ["moriio.example/churn"]}}
        for sight in self._some(6):
            self.lingering.append(sight.pod)
            with elusive():
                await self.api.merge(kinds.POD, self.namespace, sight.pod, hold)
                await self.api.delete(kinds.POD, self.namespace, sight.pod)

    async def make_anew(self) -> None:
        """Delete a PDDeployment, and create it again under the same name at once."""
        name = self._pick()
        await self.api.delete(PDDEPLOYMENT, self.namespace, name)
        wish = manifest(self.namespace, name, self._image(), self.rng.randint(1, EACH))
        await self.api.create(PDDEPLOYMENT, wish)

    async def scale(self) -> None:
        """Give a PDDeployment other numbers."""
        wish: Json = {role: {"replicas": self.rng.randint(1, EACH)} for role in ROLES}
        await self._change(self._pick(), wish)

    async def scale_up(self) -> None:
        """Give all of them all their engines back."""
        whole: Json = {role: {"replicas": EACH} for role in ROLES}
        for name in self._names:
            await self._change(name, whole)

    async def roll_out(self) -> None:
        """Change the image: all engines stop, then others start."""
        await self._change(self._pick(), {"engine": {"image": self._image()}})

    async def drain_a_node(self) -> None:
        """Cordon a node, delete its engines, and open it again when they are gone."""
        node = self._node()
        await self._cordon(node, shut=True)
        await self._delete([sight for sight in self._on(node) if sight.owner])
        await until(self._emptied(node), f"{node} to be drained", PATIENCE_S)
        await self._cordon(node, shut=False)

    async def lose_a_node(self) -> None:
        """Delete a node and what ran there; it comes back, empty, when the next one is lost."""
        await self._return_nodes()
        node = self._node()
        self.away.append(node)
        await self.api.delete(NODE, "", node)

        async def emptied() -> bool:
            # The scheduler may go on placing engines there for a moment.
            await self._delete(self._on(node), at_once=1.0)
            return not self._on(node)

        await until(emptied, f"the pods of {node} to go", PATIENCE_S)

    async def kill_the_operator(self) -> None:
        """Kill it while it has work, and start another."""
        await self._delete(self._some(20))
        await self.operators.killed()

    async def overlap(self) -> None:
        """Stop the operator midway, let another lead, and let both go on."""
        first = self.operators.processes[-1]
        began = self.record.version
        await self._delete(self._some(30))
        first.signal(signal.SIGSTOP)
        # As if its time had run out: it does not know, and its own clock lets it write.
        await self.operators.forget_lease()
        await self.operators.start()
        await self._delete(self._some(30))
        first.signal(signal.SIGCONT)
        await first.ended(PATIENCE_S)
        self.overlaps.append(range(began, await self.record.version_now() + 1))

    async def invite_strangers(self) -> None:
        """Let strangers ask for ports of some nodes, in the range and anywhere in a block."""
        for _ in range(5):
            ports = self.rng.sample(range(RANGE.start, RANGE.end + 1), 3)
            await self._invite(self._node(), ports)

    async def take_ports_everywhere(self) -> None:
        """Take on every node the blocks that a PDDeployment would get next, and make it ask."""
        await self._dismiss()
        name = self._pick()
        found = await self.api.get(PDDEPLOYMENT, self.namespace, name)
        ports = self._free_after(
            found.get("status", {}).get("portAllocation", {}).get("cursor", 0), 3
        )
        for node in self._here():
            await self._invite(node, ports)
        old = self._of(name)
        await self._delete(old[:3])

        async def all_placed() -> bool:
            now = self._of(name)
            fresh = {sight.uid for sight in now} - {sight.uid for sight in old}
            return len(now) >= len(old) and bool(fresh) and all(sight.placed for sight in now)

        # A stranger that went would let in who asks for its ports.
        with suppress(TimeoutError):
            await until(all_placed, "engines to find other ports", GATHER_S)

    # What acts are made of.

    @property
    def _names(self) -> list[str]:
        return [f"llm-{chr(ord('a') + index)}" for index in range(DEPLOYMENTS)]

    def _pick(self) -> str:
        # The first one has its own mill.
        return self.rng.choice(self._names[1:])

    def _image(self) -> str:
        self.made += 1
        return f"localhost/moriio/none:churn-{self.made}"

    def _engines(self) -> list[Sight]:
        """Give those that live, in an order that does not depend on their uids."""
        living = [s for s in self.record.there.values() if s.owner and s.exists and not s.stops]
        return sorted(living, key=lambda sight: sight.pod)

    def _of(self, name: str) -> list[Sight]:
        return [sight for sight in self._engines() if sight.pod.startswith(f"{name}-")]

    def _some(self, count: int) -> list[Sight]:
        living = self._engines()
        return self.rng.sample(living, min(count, len(living)))

    def _here(self) -> list[str]:
        return [name for i in range(NODES) if (name := f"played-{i}") not in self.away]

    def _node(self) -> str:
        return self.rng.choice(self._here())

    def _on(self, node: str) -> list[Sight]:
        """Give the pods of a node, but for those that stop slowly."""
        there = [s for s in self.record.there.values() if s.node == node and s.exists]
        return [sight for sight in there if sight.pod not in self.lingering]

    def _emptied(self, node: str) -> Callable[[], Awaitable[bool]]:
        before = {sight.uid for sight in self._on(node) if sight.owner}

        async def emptied() -> bool:
            return not any(sight.uid in before for sight in self._on(node))

        return emptied

    async def _crowded(self) -> bool:
        self.record.check()
        placed = sum(1 for s in self._engines() if s.placed and s.phase == "Running")
        return placed >= CROWD

    async def _delete(self, pods: Sequence[Sight], *, at_once: float = 0.3) -> None:
        """Delete pods side by side, that share of them without a grace."""

        async def delete(pod: str, body: Json | None) -> None:
            with elusive():
                await self.api.ask("DELETE", kinds.POD.path(self.namespace, pod), body)

        graces = [{"gracePeriodSeconds": 0} if self.rng.random() < at_once else None for _ in pods]
        both = zip(pods, graces, strict=True)
        await asyncio.gather(*(delete(sight.pod, grace) for sight, grace in both))

    async def _change(self, name: str, spec: Json) -> None:
        await self.api.merge(PDDEPLOYMENT, self.namespace, name, {"spec": spec})

    async def _cordon(self, node: str, *, shut: bool) -> None:
        await self.api.merge(NODE, "", node, {"spec": {"unschedulable": shut}})

    async def _return_nodes(self) -> None:
        bodies = {node["metadata"]["name"]: node for node in played.nodes(NODES, closed=True)}
        while self.away:
            await self.api.create(NODE, bodies[self.away.pop()])

    async def _release(self) -> None:
        """Let go those that stop slowly."""
        freed = {"metadata": {"finalizers": None}}
        while self.lingering:
            with elusive():
                await self.api.merge(kinds.POD, self.namespace, self.lingering.pop(), freed)

    async def _invite(self, node: str, ports: Iterable[int]) -> None:
        self.made += 1
        pod = stranger(self.namespace, f"stranger-{self.made}", node, ports)
        await self.api.create(kinds.POD, pod)

    async def _dismiss(self) -> None:
        strangers = [s for s in self.record.there.values() if s.pod.startswith("stranger-")]
        await self._delete(strangers)

    def _free_after(self, cursor: int, blocks: int) -> list[int]:
        """Give the last port of each of the next blocks that nobody holds."""
        held = {port for sight in self.record.there.values() for port in sight.ports}
        start = cursor % RANGE.length
        offsets = [(start + step) % RANGE.length for step in range(0, RANGE.length, BLOCK)]
        bases = [RANGE.start + offset for offset in offsets]
        free = [base for base in bases if not held.intersection(range(base, base + BLOCK))]
        return [base + BLOCK - 1 for base in free[:blocks]]


Act: TypeAlias = Callable[[Churn], Awaitable[None]]
# How often each act is dealt; shuffled anew each time.
DECK: dict[Act, int] = {
    Churn.delete_engines: 8,
    Churn.delete_all_engines_of_one: 4,
    Churn.stop_slowly: 2,
    Churn.make_anew: 2,
    Churn.scale: 4,
    Churn.scale_up: 1,
    Churn.roll_out: 4,
    Churn.drain_a_node: 2,
    Churn.lose_a_node: 2,
    Churn.kill_the_operator: 2,
    Churn.overlap: 2,
    Churn.invite_strangers: 2,
    Churn.take_ports_everywhere: 1,
}

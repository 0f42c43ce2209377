"""Who held which port of which node: the lives of pods, recorded from a watch, and the judgement.

The recorder keeps every event of a namespace's pods, in the order of their versions. What is judged
is the record alone, so a clash that lasted for one event is found as surely as one that lasts.
A pod holds its host ports from the moment a node is written into it until it is gone from the API
or its containers have ended: the scheduler counts the same way.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
from moriio_operator.api import names
from moriio_operator.api.ports import PortRange
from moriio_operator.kube.kinds import POD

from stage.api import Api, Json

_WATCH = aiohttp.ClientTimeout(total=None)
_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Sight:
    """A pod as one event told it."""

    version: int
    type: str
    pod: str
    uid: str
    # The uid of the PDDeployment whose engine it is; empty for any other pod.
    owner: str = ""
    node: str = ""
    ports: tuple[int, ...] = ()
    phase: str = "Pending"
    stops: bool = False

    @property
    def exists(self) -> bool:
        """Whether it may have processes, now or later."""
        return self.type != "DELETED" and self.phase not in _ENDED

    @property
    def placed(self) -> bool:
        """Whether it holds its ports on a node."""
        return self.exists and bool(self.node)

    def __str__(self) -> str:
        """Give it as a line of a history."""
        where = self.node or "no node"
        stops = ", stops" if self.stops else ""
        ports = ",".join(map(str, self.ports))
        return f"{self.version} {self.type} {self.pod} ({self.phase}{stops}) on {where}: {ports}"


@dataclass(frozen=True, slots=True)
class Shared:
    """Two pods that held the same ports at once, from this version on."""

    version: int
    place: str
    ports: tuple[int, ...]
    first: str
    second: str

    def __str__(self) -> str:
        """Tell it in a line."""
        ports = ",".join(map(str, self.ports))
        return f"at {self.version} {self.second} shares {ports} of {self.place} with {self.first}"


def clashes(history: Iterable[Sight]) -> list[Shared]:
    """Find every two pods that held the same port of the same node at once."""
    return list(_shared(history, lambda sight: sight.node if sight.placed else None))


def doubles(history: Iterable[Sight]) -> list[Shared]:
    """Find every two engines that had the same port at once, wherever they were, or nowhere yet."""
    return list(_shared(history, lambda s: "any node" if s.owner and s.exists else None))


def early_returns(history: Iterable[Sight], ports: PortRange) -> list[str]:
    """Find the ports that a PDDeployment gave out again before it went once through the range.

    An engine's name ends in the number of ports that were handed out before its own.
    """
    engines: dict[str, dict[str, Sight]] = defaultdict(dict)
    for sight in history:
        if sight.owner:
            engines[sight.owner][sight.uid] = sight
    return [text for lives in engines.values() for text in _early(lives.values(), ports)]


def cycles(history: Iterable[Sight], ports: PortRange) -> dict[str, float]:
    """Tell by PDDeployment uid how many times its engines went through the range."""
    gone: dict[str, float] = defaultdict(float)
    for sight in history:
        if sight.owner:
            gone[sight.owner] = max(gone[sight.owner], _serial(sight) / ports.length)
    return gone


def excerpt(history: Iterable[Sight], *pods: str) -> str:
    """Give the lines of a history that speak of some pods."""
    return "\n".join(str(sight) for sight in history if sight.pod in pods)


def _shared(history: Iterable[Sight], place_of: Callable[[Sight], str | None]) -> Iterator[Shared]:
    holders: dict[tuple[str, int], dict[str, str]] = defaultdict(dict)
    held: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for sight in history:
        place = place_of(sight)
        now = set() if place is None else {(place, port) for port in sight.ports}
        for key in held[sight.uid] - now:
            del holders[key][sight.uid]
        met: dict[tuple[str, str], list[int]] = defaultdict(list)
        for key in sorted(now - held[sight.uid]):
            for other in holders[key].values():
                met[key[0], other].append(key[1])
            holders[key][sight.uid] = sight.pod
        held[sight.uid] = now
        for (where, other), ports in met.items():
            yield Shared(sight.version, where, tuple(ports), other, sight.pod)


def _early(engines: Iterable[Sight], ports: PortRange) -> Iterator[str]:
    last: dict[int, tuple[int, str]] = {}
    for engine in sorted(engines, key=_serial):
        base = min(engine.ports)
        for port in engine.ports:
            place = _serial(engine) + port - base
            before, whose = last.get(port, (place - ports.length, ""))
            if place - before < ports.length:
                yield f"{engine.pod} got {port} {place - before} ports after {whose}"
            last[port] = (place, engine.pod)


def _serial(engine: Sight) -> int:
    return int(engine.pod.rpartition("-")[2])


def sight_of(kind: str, pod: Json) -> Sight:
    """Read a pod as an event tells it."""
    metadata, spec = pod["metadata"], pod["spec"]
    return Sight(
        version=int(metadata["resourceVersion"]),
        type=kind,
        pod=metadata["name"],
        uid=metadata["uid"],
        owner=_owner(metadata),
        node=spec.get("nodeName") or "",
        ports=tuple(sorted(_host_ports(spec))),
        phase=pod.get("status", {}).get("phase") or "Pending",
        stops="deletionTimestamp" in metadata,
    )


def _owner(metadata: Json) -> str:
    owners = metadata.get("ownerReferences") or []
    return next((str(owner["uid"]) for owner in owners if owner["kind"] == names.KIND), "")


def _host_ports(spec: Json) -> Iterator[int]:
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        for port in container.get("ports") or ():
            if "hostPort" in port:
                yield port["hostPort"]


class Recorder:
    """Keeps every event of a namespace's pods, from before the first of them on."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._path = POD.path(namespace)
        self._task: asyncio.Task[None] | None = None
        self.history: list[Sight] = []
        # The pods that are there now, by uid, as the record has it.
        self.there: dict[str, Sight] = {}
        self.version = 0

    @classmethod
    @asynccontextmanager
    async def recording(cls, api: Api, namespace: str) -> AsyncIterator[Recorder]:
        """Record until the context is left, where a record with a hole fails if not before."""
        made = cls(api, namespace)
        listed = await made._listed()
        assert not listed["items"], "pods were there before the record"
        made.version = int(listed["metadata"]["resourceVersion"])
        made._task = asyncio.create_task(made._follow())
        try:
            yield made
            made.check()
        finally:
            made._task.cancel()
            await asyncio.gather(made._task, return_exceptions=True)

    def check(self) -> None:
        """Raise what ended the record before its time."""
        assert self._task is not None
        if self._task.done():
            self._task.result()

    async def complete(self) -> bool:
        """Return whether the record has arrived at what the API server has now."""
        self.check()
        pods = (await self._listed())["items"]
        now = {pod["metadata"]["uid"]: int(pod["metadata"]["resourceVersion"]) for pod in pods}
        return now == {uid: sight.version for uid, sight in self.there.items()}

    async def version_now(self) -> int:
        """Give the API server's version, which may be ahead of the record."""
        return int((await self._listed())["metadata"]["resourceVersion"])

    async def _listed(self) -> Json:
        listed: Json = await self._api.ask("GET", self._path)
        return listed

    async def _follow(self) -> None:
        while True:
            # The API server ends each watch at some time; the next one goes on where it ended.
            query = {"watch": "1", "resourceVersion": str(self.version), "timeoutSeconds": "3600"}
            url = self._api.server + self._path
            async with self._api.session.get(url, params=query, timeout=_WATCH) as stream:
                stream.raise_for_status()
                async for line in stream.content:
                    self._keep(json.loads(line))

    def _keep(self, event: dict[str, Any]) -> None:
        if event["type"] == "ERROR":
            raise RuntimeError(f"the record has a hole: {event['object']}")
        sight = sight_of(event["type"], event["object"])
        if sight.version <= self.version:
            raise RuntimeError(f"the record goes back from {self.version} to {sight}")
        self.history.append(sight)
        self.version = sight.version
        if sight.type == "DELETED":
            self.there.pop(sight.uid, None)
        else:
            self.there[sight.uid] = sight

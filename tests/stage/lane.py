"""A namespace with one operator of its own, behind a fault proxy, on a real API server.

Nothing in it runs: engines ask for a scheduler that is not there and routers for more CPU than any
node has. So pods stay Pending, a deleted one is gone at once, and all that moves is the operator.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from moriio_operator.api.kinds import OWNED, PDDEPLOYMENT, WATCHED
from moriio_operator.kube import kinds
from moriio_operator.kube.kinds import Kind

from stage.api import Api, Json
from stage.deployments import stub
from stage.faultproxy import FaultProxy
from stage.operator_process import LEASE, OperatorProcess, Starter, settings

NAMESPACES = Kind("Namespace", "namespaces")
LEASES = Kind("Lease", "leases", "coordination.k8s.io/v1")
# Longer than the operator lets an object rest between two passes.
QUIET_S = 0.6
PATIENCE_S = 40.0
# A look at a PDDeployment lists seven kinds: often enough to lose no time, seldom enough to leave
# the API server and the processors to the operator.
_POLL_S = 0.15
_RESTART_DELAY_S = 0.5
_REVISION = re.compile(r"(?<=-)[b-df-hj-np-tv-xz2-9]{8}$")


def pending(namespace: str, name: str, **spec: Any) -> Json:
    """Give a PDDeployment of which nothing runs; `spec` are whole keys of its spec."""
    made = stub(namespace, name)
    for role in ("prefill", "decode"):
        made["spec"][role]["podTemplate"] = {"spec": {"schedulerName": "nobody"}}
    made["spec"]["router"]["resources"] = {"requests": {"cpu": "4000"}}
    made["spec"].update(spec)
    return made


async def until(
    holds: Callable[[], Awaitable[Any]], what: str, timeout_s: float = PATIENCE_S
) -> None:
    """Wait until something holds; `what` completes the sentence 'gave up waiting for ...'."""
    try:
        async with asyncio.timeout(timeout_s):
            while not await holds():  # noqa: ASYNC110 - what it asks is another process
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise TimeoutError(f"gave up after {timeout_s:g} s waiting for {what}") from None


@dataclass(frozen=True, slots=True)
class Born:
    """An engine pod that was created, and its ports."""

    pod: str
    owner_uid: str
    ports: range


@dataclass(frozen=True, slots=True)
class State:
    """What the operator is answerable for, of one PDDeployment."""

    resource: Json
    pods: list[Json]
    # `Kind name`, sorted; NAME is the PDDeployment's, REV its revision, OLD any other hash.
    children: list[str]

    @property
    def lacking(self) -> list[str]:
        """What of the objects is not yet as the spec wishes it."""
        found = []
        for role in ("prefill", "decode"):
            there = [p for p in self.pods if p["metadata"]["labels"]["moriio.dev/role"] == role]
            wished = self.resource["spec"][role]["replicas"]
            if len(there) != wished:
                found.append(f"{len(there)} {role} pods of {wished}")
        stopping = [
            p["metadata"]["name"] for p in self.pods if "deletionTimestamp" in p["metadata"]
        ]
        found += [f"{name} is stopping" for name in stopping]
        if not any(child.startswith("Deployment ") for child in self.children):
            found.append("no router Deployment")
        return found

    @property
    def unfinished(self) -> list[str]:
        """What is lacking, and what the status does not tell yet."""
        status, found = self.resource.get("status", {}), self.lacking
        generation = self.resource["metadata"]["generation"]
        found += [
            f"condition {c['type']} speaks of generation {c['observedGeneration']}"
            for c in status.get("conditions", [])
            if c["observedGeneration"] != generation
        ]
        if not status.get("conditions"):
            found.append("no status")
        revisions = {p["metadata"]["labels"]["moriio.dev/revision"] for p in self.pods}
        if not revisions <= {status.get("revision")}:
            found.append(f"there are engines of the revisions {sorted(revisions)}")
        listed = sorted(engine["pod"] for engine in status.get("engines", []))
        if listed != self.pod_names:
            found.append(f"status lists {listed}, there are {self.pod_names}")
        return found

    @property
    def pod_names(self) -> list[str]:
        """The engine pods."""
        return sorted(pod["metadata"]["name"] for pod in self.pods)

    def condition(self, kind: str) -> Json:
        """Give a condition; empty when it is not there."""
        conditions = self.resource.get("status", {}).get("conditions", [])
        return next((dict(c) for c in conditions if c["type"] == kind), {})


@dataclass(eq=False, slots=True)
class Lane:
    """One namespace, its proxy, and the operator that runs in it now."""

    api: Api
    namespace: str
    proxy: FaultProxy
    folder: Path
    starter: Starter
    resync_s: float = 300
    changes: dict[str, Any] = field(default_factory=dict)
    processes: list[OperatorProcess] = field(default_factory=list)
    # How many exchanges there were when the running operator started.
    _mark: int = 0

    @classmethod
    @asynccontextmanager
    async def opened(
        cls, kubeconfig: Path, namespace: str, folder: Path, starter: Starter, **options: Any
    ) -> AsyncIterator[Lane]:
        """Make the namespace and the proxy; the operator is started by `start`."""
        async with Api.connected(kubeconfig) as api, FaultProxy.running(kubeconfig) as proxy:
            await api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
            lane = cls(api, namespace, proxy, folder, starter, **options)
            await until(lane._has_account, f"the service account of {namespace}")
            try:
                yield lane
            finally:
                for process in lane.processes:
                    process.kill()
                await api.delete(NAMESPACES, "", namespace)

    async def _has_account(self) -> bool:
        found = await self.api.find(kinds.SERVICE_ACCOUNT, self.namespace, "default")
        return found is not None

    # The operator.

    @property
    def process(self) -> OperatorProcess:
        """The operator that was started last."""
        return self.processes[-1]

    async def start(self) -> OperatorProcess:
        """Start an operator; it is not waited for."""
        stem = self.folder / f"{self.namespace}-{len(self.processes)}"
        made = settings(self.namespace, resync_s=self.resync_s, **self.changes)
        config = stem.with_suffix(".json")
        config.write_text(json.dumps(made))
        kubeconfig = self.proxy.write_kubeconfig(stem.with_suffix(".kubeconfig"))
        self._mark = len(self.proxy.exchanges)
        log = stem.with_suffix(".log")
        log.touch()
        process = await self.starter.start(config, kubeconfig, log)
        self.processes.append(process)
        return process

    async def watching(self) -> None:
        """Wait until the operator leads and watches every kind."""

        async def all_watched() -> bool:
            kinds_watched = (PDDEPLOYMENT, *WATCHED)
            return all(self.proxy.watches(kind.plural) for kind in kinds_watched)

        await self.until(all_watched, "the operator to watch")

    async def restart(self) -> OperatorProcess:
        """Start another operator in place of one that was killed, without waiting for its lease."""
        await self.process.ended()
        if await self.api.find(LEASES, self.namespace, LEASE) is not None:
            await self.api.delete(LEASES, self.namespace, LEASE)
        return await self.start()

    @asynccontextmanager
    async def supervised(self) -> AsyncIterator[None]:
        """Start another operator whenever one ends, as a kubelet does, a little later."""

        async def supervise() -> None:
            while True:
                while self.process.lives:  # noqa: ASYNC110 - a process has no event
                    await asyncio.sleep(0.05)
                await asyncio.sleep(_RESTART_DELAY_S)
                await self.start()

        task = asyncio.create_task(supervise())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    # What the user does, and sees.

    async def create(self, name: str, **spec: Any) -> Json:
        """Create a PDDeployment of which nothing runs."""
        return await self.api.create(PDDEPLOYMENT, pending(self.namespace, name, **spec))

    async def change(self, name: str, **spec: Any) -> None:
        """Merge into the spec of a PDDeployment."""
        await self.api.merge(PDDEPLOYMENT, self.namespace, name, {"spec": spec})

    async def state(self, name: str) -> State:
        """Look at a PDDeployment and what belongs to it."""
        resource = await self.api.get(PDDEPLOYMENT, self.namespace, name)
        uid, revision = resource["metadata"]["uid"], resource.get("status", {}).get("revision")
        pods = await self._owned(kinds.POD, uid)
        children = [
            f"{kind.kind} {_masked(child['metadata']['name'], name, revision)}"
            for kind in OWNED
            if kind is not kinds.POD
            for child in await self._owned(kind, uid)
        ]
        return State(resource, pods, sorted(children))

    async def _owned(self, kind: Kind, uid: str) -> list[Json]:
        """List by the owner reference alone: labels are what a foreign hand may have changed."""
        return [
            item
            for item in await self.api.list(kind, self.namespace)
            if any(ref["uid"] == uid for ref in item["metadata"].get("ownerReferences") or [])
        ]

    async def settled(self, name: str, timeout_s: float = PATIENCE_S) -> State:
        """Wait until all is there as wished, and the operator has looked at it and rests."""

        async def holds() -> bool:
            return (
                self._looked_at(name)
                and self.proxy.idle_s > QUIET_S
                and not (await self.state(name)).unfinished
            )

        try:
            await self.until(holds, f"{name} to settle", timeout_s)
        except TimeoutError as error:
            error.add_note(f"unfinished: {(await self.state(name)).unfinished}")
            raise
        return await self.state(name)

    async def until(
        self, holds: Callable[[], Awaitable[Any]], what: str, timeout_s: float = PATIENCE_S
    ) -> None:
        """Wait until something holds; a failure shows what the operator did last."""
        try:
            await until(holds, what, timeout_s)
        except TimeoutError as error:
            writes = [(e.call, e.status) for e in self.proxy.writes[-6:]]
            error.add_note(f"last writes: {writes}")
            error.add_note(self.process.log_tail())
            raise

    def _looked_at(self, name: str) -> bool:
        return any(
            (e.call.verb, e.call.resource, e.call.name) == ("get", "pddeployments", name)
            for e in self.proxy.exchanges[self._mark :]
        )

    def born(self) -> list[Born]:
        """Give every engine pod that the API server ever created for the operator."""
        return [
            Born(e.answer["metadata"]["name"], _owner_uid(e.answer), ports(e.answer))
            for e in self.proxy.writes
            if (e.call.verb, e.call.resource, e.status) == ("create", "pods", 201)
        ]


def ports(pod: Json) -> range:
    """Give the ports that an engine's container declares."""
    numbers = [port["containerPort"] for port in pod["spec"]["containers"][0]["ports"]]
    return range(min(numbers), max(numbers) + 1)


def _owner_uid(obj: Json) -> str:
    return str(obj["metadata"]["ownerReferences"][0]["uid"])


def _masked(name: str, deployment: str, revision: str | None) -> str:
    rest = name.removeprefix(deployment)
    return "NAME" + _REVISION.sub(lambda found: "REV" if found[0] == revision else "OLD", rest)

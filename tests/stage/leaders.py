"""Operators of one namespace that follow each other, or overlap: one leads, others did or will."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from moriio_operator.api.ports import PortRange

from stage.api import Api, RefusedError
from stage.lane import LEASES, until
from stage.operator_process import LEASE, ForkServer, OperatorProcess, settings

PATIENCE_S = 90.0
# Resync heals what an event did not tell; the leader election is quick, since operators die often.
RESYNC_S = 20.0
ELECTION = {
    "leaseDurationSeconds": 8,
    "renewDeadlineSeconds": 6,
    "retryPeriodSeconds": 0.5,
}
# All in the namespace of the test.
_POLICY = ("privilegedNamespaces", "hostNetworkNamespaces")


@contextmanager
def elusive() -> Iterator[None]:
    """Do something to what may be gone by now, or be another."""
    try:
        yield
    except RefusedError as error:
        if error.status not in (404, 409):
            raise


@dataclass(eq=False, slots=True)
class Operators:
    """The operator that runs now, and those that ran before."""

    api: Api
    namespace: str
    kubeconfig: Path
    folder: Path
    starter: ForkServer
    ports: PortRange
    processes: list[OperatorProcess] = field(default_factory=list)

    async def start(self) -> OperatorProcess:
        """Start one, and wait until it leads."""
        policy = {key: [self.namespace] for key in _POLICY}
        election = {"leaseNamespace": self.namespace, "leaseName": LEASE, **ELECTION}
        ports = {"start": self.ports.start, "end": self.ports.end}
        changes = {"policy": policy, "ports": ports, "leaderElection": election}
        stem = self.folder / f"operator-{len(self.processes)}"
        config, log = stem.with_suffix(".json"), stem.with_suffix(".log")
        config.write_text(json.dumps(settings(self.namespace, resync_s=RESYNC_S, **changes)))
        log.touch()
        process = await self.starter.start(config, self.kubeconfig, log)
        self.processes.append(process)

        async def leads() -> bool:
            return "event=leading" in log.read_text()

        await until(leads, f"{log.stem} to lead", PATIENCE_S)
        return process

    async def alive(self) -> OperatorProcess:
        """Give the one that leads; start another if it ended, as a kubelet does."""
        return self.processes[-1] if self.processes[-1].lives else await self.start()

    async def killed(self) -> None:
        """Kill it, and start another; its Lease is not waited for."""
        process = self.processes[-1]
        process.kill()
        await process.ended()
        await self.forget_lease()
        await self.start()

    async def forget_lease(self) -> None:
        """Let the next candidate lead at once."""
        with elusive():
            await self.api.delete(LEASES, self.namespace, LEASE)

    def logs(self) -> dict[str, str]:
        """Give what each of them said."""
        return {process.log.stem: process.log.read_text() for process in self.processes}

"""What else runs on the host network, read under a lock that a pass holds from list to create.

Two passes of one process must not give out the same ports, and a block is taken only once its pod
is created. So whoever needs ports on the host network waits for the one before, reads all engines
there, live, and lets go when its own are created. What only looks on needs no lock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from moriio_operator.api import names
from moriio_operator.kube import kinds
from moriio_operator.kube.client import Kube
from moriio_operator.kube.owners import controlled_by
from moriio_operator.observe.engine import Engine, from_pod

_ON_HOST = "spec.hostNetwork=true"


class Surroundings:
    """The engines of other PDDeployments on the host network, for one pass."""

    def __init__(self, kube: Kube, lock: asyncio.Lock, namespaces: Sequence[str], uid: str) -> None:
        self._kube = kube
        self._lock = lock
        # None stands for all namespaces.
        self._namespaces = namespaces or (None,)
        self._uid = uid
        self._looked = False
        self.engines: list[Engine] = []

    async def look(self) -> list[Engine]:
        """Read them; from now on until the pass ends nobody else gives out ports."""
        if not self._looked:
            await self._lock.acquire()
            self._looked = True
            self.engines = await self._read()
        return self.engines

    async def _read(self) -> list[Engine]:
        found = []
        for namespace in self._namespaces:
            pods, _ = await self._kube.list(kinds.POD, namespace, names.ENGINES_SELECTOR, _ON_HOST)
            found += [from_pod(pod) for pod in pods if not controlled_by(pod, self._uid)]
        return [engine for engine in found if engine is not None]

    async def __aenter__(self) -> Self:
        """Begin; nothing is read yet."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let the next one look."""
        if self._looked:
            self._lock.release()

"""Who has which port on the host network: the engines that exist, and those about to be created.

Two passes of one process must not give out the same ports, and a block can be seen by others only
once its pod is created. So what a pass gives out stands in a table in memory until its pods are
there. A pass reads the engines of others, and then, without a pause in between, plans with them and
the table and writes its own blocks into it: nobody waits for anybody's pass.

A reservation that ends while another pass is still reading may be missing in what that one reads,
and is therefore kept for it: each pass sees the reservations that were open after it began to read.
Two processes have no table in common; see `plan.neighbours` for what holds between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from moriio_operator.api import names
from moriio_operator.api.ports import PortBlock
from moriio_operator.kube import kinds
from moriio_operator.kube.client import Kube
from moriio_operator.kube.objects import controlled_by
from moriio_operator.observe.engine import Engine, from_pod

_ON_HOST = "spec.hostNetwork=true"


@dataclass(slots=True)
class _Reservation:
    uid: str
    blocks: tuple[PortBlock, ...]
    # When it ended, by the table's own count of events; None while it is open.
    ended: int | None = None


@dataclass(slots=True)
class HostPortTable:
    """Blocks that passes of this process have given out, by the uid of the PDDeployment."""

    _reservations: list[_Reservation] = field(default_factory=list)
    # When each reader began to read.
    _readers: dict[int, int] = field(default_factory=dict)
    _events: int = 0

    def begin(self) -> int:
        """Begin to read; the answer names the reader."""
        self._events += 1
        self._readers[self._events] = self._events
        return self._events

    def reserved(self, reader: int, uid: str) -> Iterator[PortBlock]:
        """Give what others have reserved, as far as this reader may have missed their pods."""
        for reservation in self._reservations:
            missed = reservation.ended is None or reservation.ended > self._readers[reader]
            if missed and reservation.uid != uid:
                yield from reservation.blocks

    def reserve(self, uid: str, blocks: Iterable[PortBlock]) -> None:
        """Reserve blocks in place of those that this PDDeployment has reserved before."""
        self._reservations = [r for r in self._reservations if r.uid != uid or r.ended is not None]
        self._reservations.append(_Reservation(uid, tuple(blocks)))

    def end(self, reader: int, uid: str) -> None:
        """End a pass: its pods can be read from now on, or were never created."""
        self._events += 1
        for reservation in self._reservations:
            if reservation.uid == uid and reservation.ended is None:
                reservation.ended = self._events
        del self._readers[reader]
        oldest = min(self._readers.values(), default=self._events)
        self._reservations = [r for r in self._reservations if r.ended is None or r.ended > oldest]

    def __len__(self) -> int:
        """Count the reservations that are remembered."""
        return len(self._reservations)


class HostPorts:
    """The ports of the host network, for one pass; read only if the pass needs them."""

    def __init__(
        self, kube: Kube, table: HostPortTable, namespaces: Sequence[str], uid: str
    ) -> None:
        self._kube = kube
        self._table = table
        # None stands for all namespaces.
        self._namespaces = namespaces or (None,)
        self._uid = uid
        self._reader: int | None = None
        # Engines of other PDDeployments on the host network; None before they are read.
        self.neighbours: list[Engine] | None = None

    async def read(self) -> list[Engine]:
        """Read the engines of others, live."""
        self._reader = self._table.begin()
        found = []
        for namespace in self._namespaces:
            pods, _ = await self._kube.list(kinds.POD, namespace, names.ENGINES_SELECTOR, _ON_HOST)
            found += [from_pod(pod) for pod in pods if not controlled_by(pod, self._uid)]
        self.neighbours = [engine for engine in found if engine is not None]
        return self.neighbours

    def held(self) -> list[PortBlock]:
        """Give what others hold or have reserved at this moment."""
        if self._reader is None or self.neighbours is None:
            return []
        blocks = [engine.ports for engine in self.neighbours]
        return [*blocks, *self._table.reserved(self._reader, self._uid)]

    def reserve(self, blocks: Iterable[PortBlock]) -> None:
        """Reserve what was planned with `held`, in the same moment."""
        if self._reader is not None:
            self._table.reserve(self._uid, blocks)

    def close(self) -> None:
        """End the pass."""
        if self._reader is not None:
            self._table.end(self._reader, self._uid)
            self._reader = None

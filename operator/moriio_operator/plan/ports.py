"""The port allocator: the cursor moves on, cyclically, and never goes back.

vLLM's peers key their sessions by `host_ip:handshake_port` and never shake hands twice, so an
engine that comes back at an address and port that a living peer knows breaks every transfer while
all health checks stay green. Addresses come back (the node's own on the host network, recycled ones
on the pod network), so ports must not: each incarnation gets the next block, and a block returns
only after the whole range was used, and not while an engine lives that may know it (`retired`).

The cursor counts ports handed out since the beginning, without a bound: modulo the range it gives
the block, and as it is it makes a pod name that never comes twice.

Whose ports count as held is the caller's to say: on the pod network an engine has an address of its
own, on the host network it shares that of whatever node it will run on.

Blocks of engines that are gone are kept back (`retired`) while an engine lives that may know them:
a peer that fetched an engine's handshake keeps it for good, and neither a small range nor a change
of the range may bring its ports back before. An engine that was seen to end without having served
was shown to no peer, and leaves nothing behind. Its serial says whether an engine was there then:
the cursor gave out all smaller ones before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from moriio_operator.api.ports import PortBlock, PortRange
from moriio_operator.api.status import EngineState, RetiredPorts, Status
from moriio_operator.observe.engine import Engine


class HeldPorts:
    """Which ports of a range are held; a byte a port, so a block is found at the speed of C."""

    def __init__(self, ports: PortRange, blocks: Iterable[PortBlock] = ()) -> None:
        self._start = ports.start
        self._held = bytearray(ports.length)
        for block in blocks:
            self.add(block)

    def __len__(self) -> int:
        """Count the ports that are held."""
        return self._held.count(1)

    def add(self, block: PortBlock) -> None:
        """Hold a block; what of it lies outside of the range does not matter."""
        first = max(block.base - self._start, 0)
        last = min(block.base - self._start + block.size, len(self._held))
        if first < last:
            self._held[first:last] = b"\1" * (last - first)

    def last_in(self, offset: int, size: int) -> int | None:
        """Find the last port that is held among so many from an offset on, as an offset."""
        found = self._held.rfind(1, offset, offset + size)
        return None if found < 0 else found


@dataclass(frozen=True, slots=True)
class Allocation:
    """A block, the cursor value that names it, and the cursor after it."""

    ports: PortBlock
    serial: int
    cursor: int


class PortsExhaustedError(Exception):
    """No block is free; the text says how many ports were wanted and where."""


def allocate(cursor: int, size: int, ports: PortRange, held: HeldPorts) -> Allocation:
    """Give the next block of so many ports that nobody holds.

    Raises:
        PortsExhaustedError: the range holds no free block of this size.
    """
    serial, end = cursor, cursor + ports.length + size
    while serial < end and size <= ports.length:
        offset = serial % ports.length
        if offset + size > ports.length:
            # A block does not go on at the other end of the range.
            serial += ports.length - offset
            continue
        taken = held.last_in(offset, size)
        if taken is None:
            return Allocation(PortBlock(ports.start + offset, size), serial, serial + size)
        serial += taken - offset + 1
    raise PortsExhaustedError(
        f"no {size} contiguous ports are free in {ports}: of its {ports.length} ports {len(held)} "
        "are held by engines, or known to engines that live"
    )


# Retired blocks that are remembered, those that went last. Where more are needed the cursor has
# gone a long way meanwhile.
MOST_RETIRED = 256
_SHOWN = (EngineState.READY, EngineState.UNREADY)
# One that vanished in such a state may have served meanwhile.
_UNKNOWN = (EngineState.PENDING, EngineState.STARTING)


def served(engine: Engine, status: Status) -> bool:
    """Return whether an engine ever served, so that peers may know its ports."""
    if engine.state in _SHOWN:
        return True
    return any(known.pod == engine.pod and known.served for known in status.engines)


def retired(status: Status, engines: Sequence[Engine], cursor: int) -> tuple[RetiredPorts, ...]:
    """Give the blocks that are kept back; `cursor` is where it stands now."""
    there = {engine.pod for engine in engines}
    gone = [
        RetiredPorts(base=known.port_base, ports=known.ports, until=cursor)
        for known in status.engines
        if known.pod not in there and (known.served or known.state in _UNKNOWN)
    ]
    oldest = min((engine.serial for engine in engines), default=cursor)
    kept = [block for block in (*status.port_allocation.retired, *gone) if oldest < block.until]
    return tuple(kept[-MOST_RETIRED:])

"""The port allocator: the cursor moves on, cyclically, and never goes back.

vLLM's peers key their sessions by `host_ip:handshake_port` and never shake hands twice, so an
engine that comes back at an address and port that a living peer knows breaks every transfer while
all health checks stay green. Addresses come back (the CNI recycles them), so ports must not: each
incarnation gets the next block, and a block returns only after the whole range was used.

The cursor counts ports handed out since the beginning, without a bound: modulo the range it gives
the block, and as it is it makes a pod name that never comes twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

# Below the NodePort range (30000) and the kernel's ephemeral range (32768).
DEFAULT_START = 20_000
DEFAULT_END = 29_999


@dataclass(frozen=True, slots=True)
class PortRange:
    """The ports `start` to `end`, both included."""

    start: int = DEFAULT_START
    end: int = DEFAULT_END

    @property
    def length(self) -> int:
        """Number of ports."""
        return self.end - self.start + 1


@dataclass(frozen=True, slots=True)
class PortBlock:
    """The ports `base` to `base + size - 1` of one engine incarnation."""

    base: int
    size: int

    def overlaps(self, other: PortBlock) -> bool:
        """Tell whether the two share a port."""
        return self.base < other.base + other.size and other.base < self.base + self.size


@dataclass(frozen=True, slots=True)
class Allocation:
    """A block, the cursor value that names it, and the cursor after it."""

    ports: PortBlock
    serial: int
    cursor: int


class PortsExhaustedError(Exception):
    """No block is free; the text says how many ports were wanted and where."""


def allocate(
    cursor: int, size: int, ports: PortRange, living: Collection[PortBlock] = ()
) -> Allocation:
    """Give the next block of so many ports that no living engine holds.

    Raises:
        PortsExhaustedError: the range holds no free block of this size.
    """
    for serial in _candidates(cursor, size, ports):
        block = PortBlock(base=ports.start + serial % ports.length, size=size)
        if not any(block.overlaps(other) for other in living):
            return Allocation(ports=block, serial=serial, cursor=serial + size)
    raise PortsExhaustedError(
        f"no {size} contiguous ports are free in {ports.start}-{ports.end}, where "
        f"{len(living)} engines hold theirs"
    )


def _candidates(cursor: int, size: int, ports: PortRange) -> Iterator[int]:
    """Walk the cursor positions of one whole cycle whose block does not pass the range's end."""
    serial = cursor
    while serial < cursor + ports.length + size:
        offset = serial % ports.length
        if offset + size > ports.length:
            serial += ports.length - offset
            if size > ports.length:
                return
            continue
        yield serial
        serial += 1

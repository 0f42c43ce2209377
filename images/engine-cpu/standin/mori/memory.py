"""Registered memory: which bytes of this process may be touched, and under which key."""

import ctypes
import itertools
import secrets
from collections.abc import Sequence
from typing import NamedTuple

from mori.kinds import MemoryDesc, MemoryLocationType


class Segment(NamedTuple):
    """A run of bytes in a region."""

    offset: int
    size: int


def out_of_bounds(segments: Sequence[Segment], size: int) -> Segment | None:
    """Return the first segment that is not wholly inside a region of `size` bytes."""
    for segment in segments:
        if segment.offset < 0 or segment.size < 0 or segment.offset + segment.size > size:
            return segment
    return None


def view(address: int, size: int) -> memoryview:
    """Bytes at an address of this process, as something that sockets read and write in place."""
    return memoryview((ctypes.c_char * size).from_address(address)).cast("B")


class Regions:
    """The regions that one engine has registered."""

    def __init__(self, engine_key: str) -> None:
        self._engine_key = engine_key
        self._ids = itertools.count(1)
        self._regions: dict[int, MemoryDesc] = {}

    def register(
        self, address: int, size: int, device_id: int, location: MemoryLocationType
    ) -> MemoryDesc:
        """Open `size` bytes at `address` to the peers that are told the key."""
        region = MemoryDesc(
            engine_key=self._engine_key,
            id=next(self._ids),
            rkey=secrets.randbits(63),
            data=address,
            size=size,
            device_id=device_id,
            loc=location,
        )
        self._regions[region.id] = region
        return region

    def deregister(self, region: MemoryDesc) -> None:
        """Close a region; transfers that come later are refused."""
        self._regions.pop(region.id, None)

    def holds(self, region: MemoryDesc) -> bool:
        """Whether a region is registered here."""
        return self._regions.get(region.id) == region

    def refusal(self, region_id: int, rkey: int, segments: Sequence[Segment]) -> str:
        """Say why a peer may not touch these bytes; empty when it may."""
        region = self._regions.get(region_id)
        if region is None or region.rkey != rkey:
            return f"remote access error: no memory region {region_id} with this key"
        bad = out_of_bounds(segments, region.size)
        if bad is not None:
            return f"remote access error: {bad} is outside a region of {region.size} bytes"
        return ""

    def views(self, region_id: int, segments: Sequence[Segment]) -> list[memoryview]:
        """Bytes of a region that `refusal` let pass."""
        base = self._regions[region_id].data
        return [view(base + segment.offset, segment.size) for segment in segments]

"""Ports as values: a range that blocks come from, and the block of one engine."""

from __future__ import annotations

from dataclasses import dataclass

# Below the NodePort range (30000) and the kernel's ephemeral range (32768).
DEFAULT_START = 20_000
DEFAULT_END = 29_999


@dataclass(frozen=True, slots=True)
class PortRange:
    """The ports `start` to `end`, both included."""

    start: int = DEFAULT_START
    end: int = DEFAULT_END

    def __str__(self) -> str:
        """Give it as firewalls write it."""
        return f"{self.start}-{self.end}"

    @property
    def length(self) -> int:
        """Number of ports."""
        return self.end - self.start + 1

    def holds(self, other: PortRange) -> bool:
        """Tell whether the other lies within this one."""
        return self.start <= other.start and other.end <= self.end


@dataclass(frozen=True, slots=True)
class PortBlock:
    """The ports `base` to `base + size - 1` of one engine incarnation."""

    base: int
    size: int

    def overlaps(self, other: PortBlock) -> bool:
        """Tell whether the two share a port."""
        return self.base < other.base + other.size and other.base < self.base + self.size

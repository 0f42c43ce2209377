"""Ports as values: a range that blocks come from, and the block of one engine."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Below the NodePort range (30000) and the kernel's ephemeral range (32768).
DEFAULT_START = 20_000
DEFAULT_END = 29_999
_BLOCK = re.compile(r"(?P<base>[0-9]{1,5})-(?P<last>[0-9]{1,5})")


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
        """Return whether the other lies within this one."""
        return self.start <= other.start and other.end <= self.end


@dataclass(frozen=True, slots=True)
class PortBlock:
    """The ports `base` to `base + size - 1` of one engine incarnation."""

    base: int
    size: int

    @classmethod
    def parse(cls, text: str) -> PortBlock | None:
        """Read what `str` gives; None for any other text."""
        found = _BLOCK.fullmatch(text)
        if found is None:
            return None
        base, last = int(found["base"]), int(found["last"])
        return cls(base, last - base + 1) if base <= last else None

    def __str__(self) -> str:
        """Give its first and its last port."""
        return f"{self.base}-{self.base + self.size - 1}"

    @property
    def numbers(self) -> range:
        """The port numbers of the block."""
        return range(self.base, self.base + self.size)

    def overlaps(self, other: PortBlock) -> bool:
        """Return whether the two share a port."""
        return self.base < other.base + other.size and other.base < self.base + self.size


def placeholder(name: str) -> str:
    """Stand for the number of a named port in an argument, until an incarnation has its block."""
    return f"$(PORT_{name.upper().replace('-', '_')})"

"""A release of vLLM to compare with, and what a difference looks like."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from moriio_operator.facts import versions
from moriio_operator.facts.versions import Version

from oracle.sources import tree


@dataclass(frozen=True, slots=True)
class Release:
    """A release: its name, its source tree, and the version whose rules our contract gives it."""

    name: str
    tree: Path
    rules: Version

    @classmethod
    def at(cls, name: str, tree: Path) -> Release:
        """Take a release from a tree. One newer than the contract has the newest rules."""
        version = versions.parse(name)
        if version is None or version < versions.OLDEST:
            raise ValueError(
                f"{name!r} is no release from {versions.OLDEST} on: give one such as "
                f"{versions.NEWEST}"
            )
        return cls(name, tree, min(version, versions.NEWEST))


def pinned(name: str) -> Release:
    """Give a release of the lock."""
    return Release.at(name, tree(name))


@dataclass(frozen=True, slots=True)
class Row:
    """A difference between a release and our contract."""

    release: str
    subject: str
    theirs: str
    ours: str

    def __str__(self) -> str:
        return f"vLLM {self.release}: {self.subject}: vLLM says {self.theirs}; we say {self.ours}"


# Compares one part of the contract with a release.
Rule = Callable[[Release], Iterator[Row]]

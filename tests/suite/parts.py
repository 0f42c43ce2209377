"""Which tests run in one process, and what they need to have for themselves.

A part is a test file, unless marks say otherwise; `MARKS` tells what they mean. The unit tests,
many small files, are one part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

MARKS = {
    "own_bed": "brings up beds itself: runs before the run's bed is there",
    "alone": "breaks, changes or counts what tests of the bed share, or measures time: runs alone",
    "last": "judges the whole run: runs after all other tests",
    "parts(by)": "the file is so many processes, or one for each value of the parameter named",
    "load(n)": "how much of the machine it takes: 1 mostly waits, 2 computes or runs engines",
}
# Folders whose tests need no bed.
_WITHOUT_BED = ("tests/unit/", "tests/oracle/", "tests/chart/")
_ONE_PART = "tests/unit/"
# Folders whose tests need the chart's operator; all others need that it is not there.
_WITH_OPERATOR = ("tests/cluster/serving/",)


class Ground(IntEnum):
    """What tests stand on; those of a bed come in this order."""

    OWN_BED = 0
    BARE_BED = 1
    OPERATOR = 2
    WHOLE_RUN = 3
    HOST = 4


@dataclass(frozen=True, slots=True)
class Item:
    """What of a collected test decides where it runs."""

    nodeid: str
    marks: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)

    @property
    def file(self) -> str:
        """The file that it is in."""
        return self.nodeid.partition("::")[0]

    @property
    def ground(self) -> Ground:
        """What it stands on."""
        if "last" in self.marks:
            return Ground.WHOLE_RUN
        if self.file.startswith(_WITHOUT_BED):
            return Ground.HOST
        if "own_bed" in self.marks:
            return Ground.OWN_BED
        return Ground.OPERATOR if self.file.startswith(_WITH_OPERATOR) else Ground.BARE_BED

    @property
    def alone(self) -> bool:
        """Whether no other test of the bed may run meanwhile."""
        return bool(self.marks.keys() & {"alone", "own_bed", "last"})

    @property
    def load(self) -> int:
        """How much of the machine it takes."""
        (load,) = self.marks.get("load", (1,))
        assert isinstance(load, int)
        return load


@dataclass(frozen=True, slots=True)
class Part:
    """Tests that run one after the other in one process, in this order."""

    name: str
    ground: Ground
    alone: bool
    load: int
    nodeids: tuple[str, ...]

    @property
    def files(self) -> tuple[str, ...]:
        """The files that its tests are in."""
        return tuple(dict.fromkeys(nodeid.partition("::")[0] for nodeid in self.nodeids))


def parts(tests: Iterable[Item]) -> list[Part]:
    """Share out tests to parts, each with all that its tests need; their order is kept."""
    shares: dict[tuple[object, ...], list[Item]] = {}
    counted: dict[tuple[object, ...], int] = {}
    for test in tests:
        place = _ONE_PART if test.file.startswith(_ONE_PART) else test.file
        manner = (place, test.ground, test.alone, test.load)
        number = counted.get(manner, 0)
        counted[manner] = number + 1
        shares.setdefault((*manner, _share(test, number)), []).append(test)
    return [_part(f"{key[0]} {key[-1]}".strip(), shared) for key, shared in shares.items()]


def _share(test: Item, number: int) -> object:
    (by,) = test.marks.get("parts", ("",))
    if isinstance(by, int):
        return number % by
    return test.parameters.get(str(by), "")


def _part(name: str, tests: list[Item]) -> Part:
    first = tests[0]
    return Part(name, first.ground, first.alone, first.load, tuple(t.nodeid for t in tests))

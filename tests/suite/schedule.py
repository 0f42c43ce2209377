"""Which part may start now, beside those that run.

The load of what runs side by side stays within the machine's: two for each processor, so that one
part can wait while another one computes. The bed's parts come ground by ground, since the chart's
operator watches all namespaces and the tests before it run operators of their own. Within a ground
those that run alone on the bed come last, and beside them what needs no bed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from suite.parts import Ground, Part

_LOAD_PER_PROCESSOR = 2


def capacity() -> int:
    """How much load may run at a time: MORIIO_TEST_LOAD, or what the processors can bear."""
    named = os.environ.get("MORIIO_TEST_LOAD")
    return int(named) if named else _LOAD_PER_PROCESSOR * (os.cpu_count() or 1)


def ordered(parts: Sequence[Part]) -> list[Part]:
    """Put parts into the order in which they are offered a place: heavy and long ones first."""

    def rank(part: Part) -> tuple[int, bool, int, int]:
        return (part.ground, part.alone, -part.load, -len(part.nodeids))

    return sorted(parts, key=rank)


def startable(waiting: Sequence[Part], running: Sequence[Part], load: int) -> Part | None:
    """Give the first part that may start beside those that run; `load` is how much they may be."""
    free = load - sum(part.load for part in running)
    for part in waiting:
        fits = part.load <= free or not running
        if fits and _may_run(part, waiting, running):
            return part
    return None


def _may_run(part: Part, waiting: Sequence[Part], running: Sequence[Part]) -> bool:
    """Return whether a part may run beside those that do, before those that wait."""
    rest = [other for other in (*waiting, *running) if other is not part]
    if part.ground is Ground.WHOLE_RUN:
        return all(other.ground is Ground.WHOLE_RUN for other in rest) and not running
    of_bed = [other for other in rest if other.ground is not Ground.HOST]
    if part.ground is Ground.HOST:
        # What shares the bed has the machine for itself, as long as there is any of its ground.
        now = min((other.ground for other in of_bed), default=None)
        return all(other.alone for other in of_bed if other.ground is now)
    if any(other.ground < part.ground for other in of_bed):
        return False
    on_bed = [other for other in running if other.ground is not Ground.HOST]
    return not on_bed if part.alone else not any(other.alone for other in on_bed)

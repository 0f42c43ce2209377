"""A run of all parts: brings the bed up in time, starts what may start, reports what ended.

However it ends, the parts' processes end first, with what they started, and then the bed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from bed.cluster import Bed
from bed.errors import BedError
from stage.shape import serving_bed

from suite.parts import Ground, Part
from suite.process import Running
from suite.schedule import capacity, ordered, startable

_POLL_S = 0.05
_PREPARE = "from stage.shape import serving_bed; serving_bed()"


class Run:
    """The run of all parts."""

    def __init__(self, session: pytest.Session, parts: Sequence[Part], folder: Path) -> None:
        self._session = session
        self._folder = folder
        self._waiting = ordered(parts)
        self._running: list[Running] = []
        self._started = 0
        self._preparation: subprocess.Popen[bytes] | None = None
        self._bed: Bed | None = None

    def go(self) -> None:
        """Run all parts."""
        with ExitStack() as stack:
            stack.callback(self._take_down)
            stack.callback(self._end_all)
            if any(_needs_bed(part) for part in self._waiting):
                self._prepare()
            while self._waiting or self._running:
                self._start_what_may()
                self._report_what_ended()
                if self._session.shouldfail:
                    raise self._session.Failed(self._session.shouldfail)
                time.sleep(_POLL_S)

    def _prepare(self) -> None:
        """Make images and vLLM's environment, while tests run that do without them."""
        words = [sys.executable, "-c", _PREPARE]
        self._preparation = subprocess.Popen(words, start_new_session=True)

    def _start_what_may(self) -> None:
        load = capacity()
        running = [each.part for each in self._running]
        while (part := startable(self._possible(), running, load)) is not None:
            if _needs_bed(part) and self._bed is None:
                self._bed = self._bed_up()
            self._waiting.remove(part)
            place = self._folder / str(self._started)
            self._running.append(Running(part, place, self._session.config))
            self._started += 1
            running.append(part)

    def _possible(self) -> list[Part]:
        """Give the parts that need nothing that is still being made."""
        if self._preparation is None or self._preparation.poll() is not None:
            return self._waiting
        return [part for part in self._waiting if not _needs_bed(part)]

    def _bed_up(self) -> Bed:
        try:
            # What the preparation could not make fails here again, and says why.
            return Bed.up(serving_bed())
        except BedError as error:
            raise self._session.Failed(f"the bed did not come up: {error}") from error

    def _report_what_ended(self) -> None:
        for each in [each for each in self._running if each.ended]:
            self._running.remove(each)
            each.end()
            found = each.reports()
            self._report([*found, *each.owed(found)])

    def _report(self, reports: Sequence[pytest.TestReport]) -> None:
        hook = self._session.config.hook
        for report in reports:
            place = {"nodeid": report.nodeid, "location": report.location}
            if report.when == "setup":
                hook.pytest_runtest_logstart(**place)
            hook.pytest_runtest_logreport(report=report)
            if report.when == "teardown":
                hook.pytest_runtest_logfinish(**place)

    def _end_all(self) -> None:
        for each in self._running:
            each.interrupt()
        for each in self._running:
            each.end()
            self._report(each.reports())
        if self._preparation is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._preparation.pid, signal.SIGKILL)
            self._preparation.wait()

    def _take_down(self) -> None:
        if self._bed is not None:
            self._bed.down()


def _needs_bed(part: Part) -> bool:
    return part.ground not in (Ground.HOST, Ground.OWN_BED)

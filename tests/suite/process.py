"""One part as a process: pytest on the part's tests, which writes its reports to a file.

The order says which tests; the file of reports grows with each phase of each test, so a process
that dies has said all that it came to. It is a process group of its own, so that nothing of it
outlives it, and the kernel interrupts it when the run's process dies.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from suite.parts import Part

# What tearing down may take when a run is interrupted; then the part is killed.
_INTERRUPTED_S = 15
_PR_SET_PDEATHSIG = 1
_TAIL_CHARS = 4000


@dataclass(frozen=True, slots=True)
class Order:
    """What a part's process is told to do."""

    nodeids: list[str]
    reports: str
    # Whether others use the bed meanwhile.
    shares_bed: bool

    @classmethod
    def read(cls, file: str) -> Order:
        """Read an order that was written for this process."""
        return cls(**json.loads(Path(file).read_text()))

    def write(self, file: Path) -> None:
        """Write it for a process to read."""
        file.write_text(json.dumps(asdict(self)))


class Reporter:
    """In a part's process: keeps the tests that were ordered, and writes down their reports."""

    def __init__(self, order: Order, config: pytest.Config) -> None:
        self._order = order
        self._config = config
        # Be told to stop when the process that started this one ends, however it ends.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the ordered tests, in the order that they were given in."""
        place = {nodeid: number for number, nodeid in enumerate(self._order.nodeids)}
        kept = [item for item in items if item.nodeid in place]
        items[:] = sorted(kept, key=lambda item: place[item.nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write down how a phase of a test ended."""
        hook = self._config.hook
        data = hook.pytest_report_to_serializable(config=self._config, report=report)
        with Path(self._order.reports).open("a") as file:
            file.write(json.dumps(data) + "\n")


class Running:
    """A part's process, seen from the run's."""

    def __init__(self, part: Part, place: Path, config: pytest.Config) -> None:
        self.part = part
        self._config = config
        self._reports = place.with_suffix(".reports")
        self._output = place.with_suffix(".output")
        order = place.with_suffix(".order")
        Order(list(part.nodeids), str(self._reports), not part.alone).write(order)
        with self._output.open("w") as output:
            self._process = subprocess.Popen(
                _command(part, order, config),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def reports(self) -> list[pytest.TestReport]:
        """Give what its tests came to so far."""
        text = self._reports.read_text() if self._reports.exists() else ""
        hook = self._config.hook
        return [
            hook.pytest_report_from_serializable(config=self._config, data=json.loads(line))
            # What follows the last line's end is half a report.
            for line in text.split("\n")[:-1]
        ]

    def owed(self, found: Sequence[pytest.TestReport]) -> list[pytest.TestReport]:
        """Give a failure for each test that an ended process left out, or one if it failed."""
        whole = {report.nodeid for report in found if report.when == "teardown"}
        missing = [nodeid for nodeid in self.part.nodeids if nodeid not in whole]
        code = self._process.returncode
        explained = code == 0 or (code == 1 and any(report.failed for report in found))
        if not missing and not explained:
            missing = [self.part.nodeids[-1]]
        said = self._output.read_text(errors="replace")[-_TAIL_CHARS:]
        text = f"{self.part.name} ended with code {code}; its output ends:\n{said}"
        return [_failure(nodeid, text) for nodeid in missing]

    def interrupt(self) -> None:
        """Ask it to tear down and end."""
        if not self.ended:
            self._process.terminate()

    def end(self, timeout_s: float = _INTERRUPTED_S) -> None:
        """Wait until it has ended, kill it if that takes too long, and all that it left."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _command(part: Part, order: Path, config: pytest.Config) -> list[str]:
    options = ["-c", str(config.inipath), f"--rootdir={config.rootpath}", "-p", "no:cacheprovider"]
    files = [str(config.rootpath / file) for file in part.files]
    return [sys.executable, "-m", "pytest", *options, f"--part={order}", "--quiet", *files]


def _failure(nodeid: str, text: str) -> pytest.TestReport:
    file = nodeid.partition("::")[0]
    return pytest.TestReport(
        nodeid=nodeid,
        location=(file, None, nodeid.rpartition("::")[2]),
        keywords={},
        outcome="failed",
        longrepr=text,
        when="call",
    )

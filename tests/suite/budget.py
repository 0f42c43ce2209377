"""How long tests took: the ten slowest of a run, and whether each folder kept its budget.

A budget is the sum of what a folder's tests take, in seconds, also of those that ran at the same
time. It is what they were seen to take on two processors, three times over, so that a slow or busy
machine keeps it and a test that waits for minutes does not. MORIIO_TEST_BUDGET_FACTOR stretches all
budgets, and 0 lifts them.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping
from pathlib import PurePosixPath

import pytest

BUDGETS_S: Mapping[str, float] = {
    "tests/unit": 300,
    "tests/chart": 150,
    "tests/oracle": 900,
    "tests/cluster": 600,
    "tests/cluster/apiserver": 3600,
    "tests/cluster/chart": 360,
    "tests/cluster/serving": 6000,
}
FACTOR = "MORIIO_TEST_BUDGET_FACTOR"
_WARN_AT = 0.8
_SLOWEST = 10


def overrun(spent_s: Mapping[str, float], factor: float) -> tuple[list[str], list[str]]:
    """Judge what each folder took: what to warn of, and what fails the run."""
    warnings, failures = [], []
    for folder, took_s in sorted(spent_s.items()):
        if folder not in BUDGETS_S:
            failures.append(f"{folder} has no budget: give it one in tests/suite/budget.py")
            continue
        budget_s = BUDGETS_S[folder] * factor
        said = f"{folder} took {took_s:.0f} s of its {budget_s:.0f} s"
        if factor and took_s > budget_s:
            failures.append(f"{said}: make its tests quicker, or stretch all by {FACTOR}")
        elif factor and took_s > _WARN_AT * budget_s:
            warnings.append(said)
    return warnings, failures


def by_folder(spent_s: Mapping[str, float]) -> dict[str, float]:
    """Add up what the tests of each folder took."""
    sums: dict[str, float] = defaultdict(float)
    for nodeid, took_s in spent_s.items():
        sums[str(PurePosixPath(nodeid.partition("::")[0]).parent)] += took_s
    return dict(sums)


class Watch:
    """Watches a run, and tells at its end."""

    def __init__(self) -> None:
        self._spent_s: dict[str, float] = defaultdict(float)
        self._warnings: list[str] = []
        self._failures: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a phase of a test."""
        self._spent_s[report.nodeid] += report.duration

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail the run if a folder took too long."""
        factor = float(os.environ.get(FACTOR, "1"))
        self._warnings, self._failures = overrun(by_folder(self._spent_s), factor)
        if self._failures and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name the slowest tests, what each folder took, and whose budget is spent."""
        out = terminalreporter
        out.section(f"slowest {_SLOWEST} tests")
        slowest = sorted(self._spent_s.items(), key=lambda each: -each[1])
        for nodeid, took_s in slowest[:_SLOWEST]:
            out.write_line(f"{took_s:6.1f} s  {nodeid}")
        sums = by_folder(self._spent_s)
        out.section("seconds in each folder")
        for folder, took_s in sorted(sums.items()):
            out.write_line(f"{took_s:6.0f} s  {folder}")
        for text in self._warnings:
            out.write_line(f"warning: {text}", yellow=True)
        for text in self._failures:
            out.write_line(f"over budget: {text}", red=True)

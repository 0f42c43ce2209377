"""Plugins and options of the whole suite; pytest takes them from the topmost conftest only."""

from __future__ import annotations

import signal
from types import FrameType

import pytest

pytest_plugins = ["bed.pytest_plugin", "suite.plugin"]


def pytest_configure() -> None:
    """Let SIGTERM end the run as Ctrl-C does: fixtures are torn down, the bed with them."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add our options."""
    parser.addoption(
        "--fail-on-skip",
        action="store_true",
        help="fail the run if a test is skipped: it would prove nothing",
    )


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Turn a skipped test into a failed run."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter else []
    if skipped and session.config.getoption("--fail-on-skip"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED

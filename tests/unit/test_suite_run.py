"""A run side by side, with parts that need no bed: what each came to is told, whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from bed.cache import REPO
from bed.command import wait_until

TESTS = {
    "one": "def test_passes(): pass\ndef test_fails(): assert 1 == 2, 'why not'\n",
    "two": "def test_passes(): print('hidden')\n",
    "dying": "import os\ndef test_before(): pass\ndef test_dies(): os._exit(7)\n",
    "waiting": (
        "import pathlib, subprocess, time, pytest\n"
        "@pytest.fixture\n"
        "def started():\n"
        "    sleeper = subprocess.Popen(['sleep', '4242'])\n"
        "    pathlib.Path('pids').write_text(str(sleeper.pid))\n"
        "    yield\n"
        "    pathlib.Path('torn-down').touch()\n"
        "def test_waits(started): time.sleep(600)\n"
    ),
}
CONFTEST = """
import signal
pytest_plugins = ["bed.pytest_plugin", "suite.plugin"]
def pytest_configure():
    def interrupt(*_): raise KeyboardInterrupt
    signal.signal(signal.SIGTERM, interrupt)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Give a project with the suite's plugin and a folder for tests without a bed."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    (tmp_path / "tests/oracle").mkdir(parents=True)
    return tmp_path


def start(project: Path, *names: str) -> subprocess.Popen[str]:
    """Run these tests side by side."""
    for name in names:
        (project / f"tests/oracle/test_{name}.py").write_text(TESTS[name])
    paths = f"{REPO / 'tests'}:{REPO / 'operator'}"
    environment = {**os.environ, "PYTHONPATH": paths, "TMPDIR": str(project)}
    options = ("-c", "pytest.ini", "--rootdir=.", "-p", "no:cacheprovider", "--side-by-side")
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, "tests"],
        cwd=project,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_results_of_all_parts_are_one_report_and_one_that_dies_fails_what_it_owes(
    project: Path,
) -> None:
    process = start(project, "one", "two", "dying")
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "2 failed, 3 passed" in said.splitlines()[-1]
    assert "why not" in said
    assert "hidden" not in said
    assert "tests/oracle/test_dying.py ended with code 7" in said


def test_a_run_that_is_stopped_tears_down_and_leaves_no_process(project: Path) -> None:
    process, sleeper = waiting(project)
    process.terminate()
    process.communicate(timeout=120)
    assert process.returncode != 0
    assert (project / "torn-down").exists()
    wait_until(lambda: has_ended(sleeper), timeout_s=10, what="what a test started to end")


def test_parts_of_a_run_that_is_killed_tear_down_by_themselves(project: Path) -> None:
    process, sleeper = waiting(project)
    process.kill()
    process.communicate(timeout=120)
    wait_until((project / "torn-down").exists, timeout_s=60, what="the teardown")
    os.kill(sleeper, signal.SIGKILL)


def waiting(project: Path) -> tuple[subprocess.Popen[str], int]:
    """Start a run, and give it with what its test started, once that waits."""
    process, pids = start(project, "waiting"), project / "pids"
    wait_until(lambda: pids.exists() and bool(pids.read_text()), timeout_s=120, what="a test")
    return process, int(pids.read_text())


def has_ended(pid: int) -> bool:
    """Whether a process has ended; nobody may have waited for it yet."""
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or ") Z " in stat.read_text()

"""The budgets of test folders, and the slowest tests of a run."""

from __future__ import annotations

from typing import Literal

import pytest
from bed.cache import REPO
from suite.budget import BUDGETS_S, Watch, by_folder, overrun

FOLDER = "tests/unit"
BUDGET_S = BUDGETS_S[FOLDER]


@pytest.mark.parametrize(
    ("share", "factor", "warned", "failed"),
    [
        pytest.param(0.5, 1, False, False, id="well within"),
        pytest.param(0.79, 1, False, False, id="below the warning"),
        pytest.param(0.81, 1, True, False, id="nearly spent"),
        pytest.param(1.01, 1, False, True, id="overspent"),
        pytest.param(1.01, 2, False, False, id="stretched"),
        pytest.param(0.51, 0.5, False, True, id="tightened"),
        pytest.param(9, 0, False, False, id="lifted"),
    ],
)
def test_a_folder_that_nears_its_budget_warns_and_one_above_it_fails(
    share: float, factor: float, *, warned: bool, failed: bool
) -> None:
    warnings, failures = overrun({FOLDER: share * BUDGET_S}, factor)
    assert (bool(warnings), bool(failures)) == (warned, failed)
    assert all(text.startswith(FOLDER) for text in (*warnings, *failures))


def test_a_folder_without_a_budget_fails() -> None:
    assert overrun({"tests/new": 0.1}, 1)[1] == [
        "tests/new has no budget: give it one in tests/suite/budget.py"
    ]


def test_what_a_folders_tests_take_is_added_up() -> None:
    spent = {"tests/a/test_x.py::test_1": 1.0, "tests/a/test_y.py::test_1[b/c]": 2.0}
    assert by_folder(spent) == {"tests/a": 3.0}


def test_every_folder_with_tests_has_a_budget() -> None:
    folders = {str(file.parent.relative_to(REPO)) for file in (REPO / "tests").glob("**/test_*.py")}
    assert folders == set(BUDGETS_S)


Phase = Literal["setup", "call", "teardown"]
PHASES: tuple[Phase, ...] = ("setup", "call", "teardown")


def report(nodeid: str, when: Phase, seconds: float) -> pytest.TestReport:
    place = ("file", 0, "test")
    return pytest.TestReport(nodeid, place, {}, "passed", None, when, duration=seconds)


class Screen:
    """What a terminal reporter was given."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def section(self, title: str) -> None:
        self.lines.append(title)

    def write_line(self, line: str, **_: bool) -> None:
        self.lines.append(line)


def test_a_run_ends_with_its_ten_slowest_tests() -> None:
    watch, screen = Watch(), Screen()
    for number in range(12):
        for when in PHASES:
            watch.pytest_runtest_logreport(report(f"tests/unit/t.py::t{number}", when, number))
    watch.pytest_terminal_summary(screen)  # type: ignore[arg-type]
    assert screen.lines[0] == "slowest 10 tests"
    named = [line.split() for line in screen.lines[1:11]]
    assert [(words[0], words[-1]) for words in named] == [
        (f"{3.0 * number:.1f}", f"tests/unit/t.py::t{number}") for number in range(11, 1, -1)
    ]


def test_a_spent_budget_fails_a_run_that_was_well() -> None:
    class Session:
        exitstatus: int = pytest.ExitCode.OK

    watch, session = Watch(), Session()
    watch.pytest_runtest_logreport(report("tests/unit/t.py::t", "call", BUDGET_S * 2))
    watch.pytest_sessionfinish(session)  # type: ignore[arg-type]
    assert session.exitstatus == pytest.ExitCode.TESTS_FAILED

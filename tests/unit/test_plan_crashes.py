"""An engine that ends is replaced at once the first time, then slower and slower."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moriio_operator.plan import crashes
from moriio_operator.plan.crashes import CrashRecord

from unit.samples import NOW, later


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [(0, 0), (1, 0), (2, 10), (3, 20), (4, 40), (5, 80), (6, 160), (7, 300), (8, 300)],
)
def test_delays(failures: int, seconds: int) -> None:
    assert crashes.delay_s(failures) == seconds


@given(st.integers(0, 10**9))
def test_delays_never_shrink_and_are_bounded(failures: int) -> None:
    assert crashes.delay_s(failures) <= crashes.delay_s(failures + 1) <= crashes.LONGEST_S


def test_the_first_end_counts_one() -> None:
    assert crashes.counted(0, None, NOW) == 1


def test_an_end_soon_after_another_counts_one_more() -> None:
    assert crashes.counted(3, NOW, later(crashes.FORGET_S)) == 4


def test_an_end_long_after_the_last_begins_anew() -> None:
    assert crashes.counted(3, NOW, later(crashes.FORGET_S + 1)) == 1


def test_a_loop_of_ends_at_the_longest_delay_is_still_one_loop() -> None:
    assert crashes.FORGET_S > crashes.LONGEST_S


@pytest.mark.parametrize(("passed", "left"), [(0, 20), (5, 15), (20, 0), (21, 0)])
def test_what_remains(passed: int, left: int) -> None:
    assert crashes.remaining_s(CrashRecord(3, NOW), later(passed)) == left


def test_without_a_failure_nothing_remains() -> None:
    assert crashes.remaining_s(CrashRecord(0, None), NOW) == 0


@given(st.integers(0, 20), st.integers(0, 10**6))
def test_a_clock_that_went_back_never_makes_the_wait_longer(failures: int, back: int) -> None:
    assert crashes.remaining_s(CrashRecord(failures, later(back)), NOW) <= crashes.delay_s(failures)


def test_an_end_in_the_near_future_is_one_of_the_loop() -> None:
    # The clock of the node that the operator was on ran a little fast.
    assert crashes.counted(3, later(crashes.FORGET_S), NOW) == 4


def test_an_end_in_the_far_future_is_not_one_of_the_loop() -> None:
    assert crashes.counted(3, later(crashes.FORGET_S + 1), NOW) == 1


@pytest.mark.parametrize(("ahead", "left"), [(5, 15), (20, 0), (3600, 0)])
def test_an_end_in_the_future_does_not_wait_until_the_clock_is_there(ahead: int, left: int) -> None:
    assert crashes.remaining_s(CrashRecord(3, later(ahead)), NOW) == left

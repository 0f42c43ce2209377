"""What processes that share a bed know of each other."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path

import pytest
from bed.once import Records


def test_what_was_made_once_is_given_to_all(tmp_path: Path) -> None:
    records = Records(tmp_path / "records")
    made = [records.once("thing", lambda: ["made", 1]), records.once("thing", lambda: "again")]
    assert made == [["made", 1]] * 2
    assert records.once("other", lambda: None) is None


def test_what_could_not_be_made_is_tried_again(tmp_path: Path) -> None:
    records = Records(tmp_path)
    with pytest.raises(ZeroDivisionError):
        records.once("thing", lambda: 1 // 0)
    assert records.once("thing", lambda: "made") == "made"


def test_a_list_grows_by_what_is_added(tmp_path: Path) -> None:
    records = Records(tmp_path)
    assert records.added("list") == []
    for value in ("one", "two"):
        records.add("list", value)
    assert records.added("list") == ["one", "two"]


def _make_and_count(folder: Path) -> None:
    records = Records(folder)

    def make() -> None:
        time.sleep(0.2)
        records.add("makers", "one")

    records.once("thing", make)
    for _ in range(20):
        records.add("numbers", records.next_number("number"))


def test_of_processes_at_the_same_time_one_makes_it_and_none_gets_the_others_number(
    tmp_path: Path,
) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_make_and_count, args=(tmp_path,)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    records = Records(tmp_path)
    assert records.added("makers") == ["one"]
    assert sorted(records.added("numbers")) == list(range(80))

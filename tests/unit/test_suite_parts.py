"""Which tests share a process, and which processes run side by side."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from suite.parts import Ground, Item, Part, parts
from suite.schedule import capacity, ordered, startable

UNIT = "tests/unit/test_a.py::test_one"
BARE = "tests/cluster/apiserver/test_a.py::test_one"
SERVING = "tests/cluster/serving/test_a.py::test_one"


def part(ground: Ground, *, alone: bool = False, load: int = 1, name: str = "part") -> Part:
    return Part(name, ground, alone, load, (f"tests/{name}.py::test",))


def test_the_tests_of_a_file_stay_together_in_their_order() -> None:
    nodeids = [f"tests/cluster/test_{file}.py::test_{number}" for file in "ab" for number in "12"]
    found = parts(map(Item, nodeids))
    assert [each.nodeids for each in found] == [tuple(nodeids[:2]), tuple(nodeids[2:])]


def test_all_unit_tests_are_one_part() -> None:
    (found,) = parts(map(Item, (UNIT, UNIT.replace("_a", "_b"))))
    assert found.files == ("tests/unit/test_a.py", "tests/unit/test_b.py")


@pytest.mark.parametrize(
    ("nodeid", "marks", "ground", "alone"),
    [
        (UNIT, {}, Ground.HOST, False),
        ("tests/oracle/test_a.py::test", {}, Ground.HOST, False),
        ("tests/chart/test_a.py::test", {}, Ground.HOST, False),
        (BARE, {}, Ground.BARE_BED, False),
        ("tests/cluster/test_bed.py::test", {"own_bed": ()}, Ground.OWN_BED, True),
        (SERVING, {}, Ground.OPERATOR, False),
        (SERVING, {"alone": ()}, Ground.OPERATOR, True),
        (SERVING, {"last": ()}, Ground.WHOLE_RUN, True),
    ],
)
def test_folder_and_marks_say_what_a_test_stands_on(
    nodeid: str, marks: dict[str, tuple[object, ...]], ground: Ground, *, alone: bool
) -> None:
    (found,) = parts([Item(nodeid, marks)])
    assert (found.ground, found.alone) == (ground, alone)


def test_a_marked_test_leaves_its_file_for_a_part_of_its_own() -> None:
    shared, alone = parts([Item(BARE), Item(f"{BARE}_2", {"alone": ()})])
    assert (shared.alone, alone.alone) == (False, True)


def test_independent_tests_are_shared_out_to_as_many_processes_as_asked() -> None:
    tests = [Item(f"{BARE}[{number}]", {"parts": (3,)}) for number in range(7)]
    assert [len(each.nodeids) for each in parts(tests)] == [3, 2, 2]


def test_tests_of_one_value_of_a_parameter_stay_together() -> None:
    tests = [
        Item(f"{SERVING}[{mode}-{number}]", {"parts": ("service",)}, {"service": mode})
        for mode in ("Read", "Write")
        for number in range(2)
    ]
    assert [each.nodeids for each in parts(tests)] == [
        tuple(test.nodeid for test in tests[:2]),
        tuple(test.nodeid for test in tests[2:]),
    ]


def test_the_capacity_is_the_machines_unless_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert capacity() == 4
    monkeypatch.setenv("MORIIO_TEST_LOAD", "1")
    assert capacity() == 1


def test_what_does_not_fit_beside_others_runs_when_nothing_else_does() -> None:
    heavy = part(Ground.BARE_BED, load=9)
    assert startable([heavy], [part(Ground.BARE_BED)], 4) is None
    assert startable([heavy], [], 4) is heavy


def test_what_needs_no_bed_runs_beside_those_that_run_alone() -> None:
    host, alone = part(Ground.HOST), part(Ground.BARE_BED, alone=True)
    shared = part(Ground.BARE_BED)
    assert startable([host], [alone], 4) is host
    assert startable([host], [shared], 4) is None
    assert startable([host, alone], [], 4) is host
    assert startable([host], [], 4) is host


def random_parts(chance: random.Random) -> list[Part]:
    return [
        part(
            ground,
            alone=ground in (Ground.OWN_BED, Ground.WHOLE_RUN)
            or (ground is not Ground.HOST and chance.random() < 0.3),
            load=chance.randint(1, 4),
            name=f"part-{number}",
        )
        for number, ground in enumerate(chance.choices(list(Ground), k=chance.randint(1, 12)))
    ]


def check(running: Sequence[Part], waiting: Sequence[Part], load: int) -> None:
    """State the rules that no moment of a run may break."""
    assert len(running) == 1 or sum(each.load for each in running) <= load
    on_bed = [each for each in running if each.ground is not Ground.HOST]
    assert len({each.ground for each in on_bed}) <= 1
    assert len(on_bed) <= 1 or not any(each.alone for each in on_bed)
    # No ground begins before the one before it has ended.
    assert not any(w.ground < r.ground for w in waiting for r in on_bed)
    if any(each.ground is Ground.WHOLE_RUN for each in on_bed):
        assert len(running) == 1
        assert all(each.ground is Ground.WHOLE_RUN for each in waiting)


@pytest.mark.parametrize("seed", range(200))
def test_every_part_runs_and_at_no_moment_is_a_rule_broken(seed: int) -> None:
    chance = random.Random(seed)
    waiting, load = ordered(random_parts(chance)), 4
    running: list[Part] = []
    while waiting or running:
        while (started := startable(waiting, running, load)) is not None:
            waiting.remove(started)
            running.append(started)
            check(running, waiting, load)
        assert running, f"nothing may start of {waiting}"
        running.remove(chance.choice(running))

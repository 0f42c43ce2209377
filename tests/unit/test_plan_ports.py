"""The port allocator: no overlap, no step back, no reuse within a cycle."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moriio_operator.api.ports import PortBlock, PortRange
from moriio_operator.plan.ports import Allocation, HeldPorts, PortsExhaustedError, allocate

SMALL = PortRange(20_000, 20_049)
NOBODY = HeldPorts(SMALL)
SIZES = st.sampled_from([4, 6, 8, 10])
# What happens to a deployment: an engine comes (with so many ports), or a living one goes.
STEPS = st.lists(st.one_of(SIZES, st.just("gone")), max_size=60)


def ports_of(block: PortBlock) -> set[int]:
    return set(range(block.base, block.base + block.size))


def walk(steps: list[int | str], ports: PortRange) -> list[tuple[Allocation, list[PortBlock]]]:
    """Allocate and free as told; give each allocation with the blocks that lived then."""
    living: list[PortBlock] = []
    cursor, given_out = 0, []
    for step in steps:
        if step == "gone":
            living = living[1:]
            continue
        try:
            made = allocate(cursor, int(step), ports, HeldPorts(ports, living))
        except PortsExhaustedError:
            continue
        given_out.append((made, list(living)))
        living.append(made.ports)
        cursor = made.cursor
    return given_out


@given(STEPS)
def test_no_two_living_blocks_overlap(steps: list[int | str]) -> None:
    for made, living in walk(steps, SMALL):
        assert not any(ports_of(made.ports) & ports_of(other) for other in living)


@given(STEPS)
def test_a_block_lies_within_the_range(steps: list[int | str]) -> None:
    for made, _ in walk(steps, SMALL):
        assert made.ports.base >= SMALL.start
        assert made.ports.base + made.ports.size - 1 <= SMALL.end


@given(STEPS)
def test_the_cursor_and_the_serial_only_grow(steps: list[int | str]) -> None:
    before = 0
    for made, _ in walk(steps, SMALL):
        assert made.serial >= before
        assert made.cursor == made.serial + made.ports.size
        before = made.cursor


@given(STEPS)
def test_no_port_comes_back_before_the_whole_range_was_used(steps: list[int | str]) -> None:
    seen: dict[int, int] = {}
    for made, _ in walk(steps, SMALL):
        for offset, port in enumerate(sorted(ports_of(made.ports))):
            place = made.serial + offset
            if port in seen:
                assert place - seen[port] >= SMALL.length
            seen[port] = place


@given(STEPS)
def test_the_serial_tells_the_block(steps: list[int | str]) -> None:
    for made, _ in walk(steps, SMALL):
        assert made.ports.base == SMALL.start + made.serial % SMALL.length


@given(STEPS)
def test_the_same_history_gives_the_same_blocks(steps: list[int | str]) -> None:
    assert walk(steps, SMALL) == walk(steps, SMALL)


@given(st.integers(0, 10**9), SIZES)
def test_an_empty_range_always_has_a_block(cursor: int, size: int) -> None:
    made = allocate(cursor, size, SMALL, NOBODY)
    assert made.serial - cursor < size


def test_blocks_follow_each_other() -> None:
    first = allocate(0, 4, SMALL, NOBODY)
    second = allocate(first.cursor, 6, SMALL, HeldPorts(SMALL, [first.ports]))
    assert (first.ports.base, second.ports.base) == (20_000, 20_004)


def test_a_block_that_would_pass_the_end_begins_anew_at_the_start() -> None:
    made = allocate(48, 4, SMALL, NOBODY)
    assert (made.serial, made.ports.base) == (50, 20_000)


def test_a_freed_block_is_not_taken_while_later_ones_were_never_used() -> None:
    first = allocate(0, 4, SMALL, NOBODY)
    assert allocate(first.cursor, 4, SMALL, NOBODY).ports.base == first.ports.base + 4


def test_a_living_block_is_stepped_over() -> None:
    living = [PortBlock(20_000, 4)]
    assert allocate(50, 4, SMALL, HeldPorts(SMALL, living)).ports.base == 20_004


@pytest.mark.parametrize("room", [2, 3])
def test_a_hole_that_is_too_small_is_stepped_over(room: int) -> None:
    living = [PortBlock(20_000 + room, 4)]
    assert allocate(50, 4, SMALL, HeldPorts(SMALL, living)).ports.base == 20_004 + room


def test_a_full_range_says_what_was_wanted_where_and_who_holds_it() -> None:
    ports = PortRange(20_000, 20_007)
    living = [PortBlock(20_000, 4), PortBlock(20_004, 4)]
    message = (
        "no 4 contiguous ports are free in 20000-20007: of its 8 ports 8 are held by engines, or "
        "known to engines that live"
    )
    with pytest.raises(PortsExhaustedError, match=message):
        allocate(8, 4, ports, HeldPorts(ports, living))


def test_a_range_smaller_than_a_block_is_exhausted_at_once() -> None:
    with pytest.raises(PortsExhaustedError, match="no 34 contiguous ports are free"):
        allocate(0, 34, PortRange(20_000, 20_032), NOBODY)


def test_a_range_of_exactly_one_block_serves_one_engine() -> None:
    ports = PortRange(20_000, 20_003)
    first = allocate(0, 4, ports, NOBODY)
    assert allocate(first.cursor, 4, ports, NOBODY).ports == first.ports
    with pytest.raises(PortsExhaustedError):
        allocate(first.cursor, 4, ports, HeldPorts(ports, [first.ports]))


def test_what_is_held_outside_of_the_range_does_not_count() -> None:
    ports = PortRange(20_000, 20_009)
    held = HeldPorts(ports, [PortBlock(19_998, 4), PortBlock(20_008, 9), PortBlock(30_000, 4)])
    assert len(held) == 4
    assert allocate(0, 6, ports, held).ports == PortBlock(20_002, 6)

"""The table of ports that passes give out: nobody misses a block, and nothing is kept long."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st
from moriio_operator.api.ports import PortBlock, PortRange
from moriio_operator.control.host_ports import HostPorts, HostPortTable
from moriio_operator.plan.ports import HeldPorts, allocate

from unit.memory_kube import MemoryKube

BLOCK, OTHER = PortBlock(20_000, 4), PortBlock(20_004, 4)


def seen(table: HostPortTable, reader: int, uid: str = "me") -> list[PortBlock]:
    return list(table.reserved(reader, uid))


def test_what_others_reserved_counts_and_ones_own_does_not() -> None:
    table = HostPortTable()
    mine, other = table.begin(), table.begin()
    table.reserve("other", [BLOCK])
    assert seen(table, mine) == [BLOCK]
    assert seen(table, other, "other") == []


def test_a_second_reservation_takes_the_place_of_the_first() -> None:
    table = HostPortTable()
    reader = table.begin()
    table.reserve("other", [BLOCK])
    table.reserve("other", [OTHER])
    assert seen(table, reader) == [OTHER]


def test_what_ended_while_a_pass_was_reading_still_counts_for_that_pass() -> None:
    table = HostPortTable()
    other = table.begin()
    table.reserve("other", [BLOCK])
    early = table.begin()
    table.end(other, "other")
    late = table.begin()
    assert seen(table, early) == [BLOCK]
    # It began to read when the pods were there.
    assert seen(table, late) == []


def test_nothing_is_remembered_once_nobody_reads() -> None:
    table = HostPortTable()
    for uid in ("a", "b"):
        reader = table.begin()
        table.reserve(uid, [BLOCK])
        table.end(reader, uid)
    assert len(table) == 0


@given(st.permutations(range(12)), st.integers(2, 4))
def test_however_passes_overlap_no_two_get_the_same_block(order: list[int], steps: int) -> None:
    """Each pass reads pods, plans and reserves in one moment, creates its pod, and ends."""
    table, pods, given_out = HostPortTable(), set[PortBlock](), list[PortBlock]()
    ports = PortRange(20_000, 20_000 + 4 * 12 - 1)

    def one(uid: str):  # type: ignore[no-untyped-def]  # noqa: ANN202
        reader = table.begin()
        read = set(pods)
        yield
        held = HeldPorts(ports, [*read, *table.reserved(reader, uid)])
        block = allocate(0, 4, ports, held).ports
        table.reserve(uid, [block])
        given_out.append(block)
        yield
        pods.add(block)
        yield
        table.end(reader, uid)

    passes = {number: one(str(number)) for number in order}
    turn = list(order) * (steps + 2)
    for number in turn:
        next(passes[number], None)
    assert len(given_out) == len(set(given_out)) == 12
    assert len(table) == 0


async def test_a_pass_that_needs_no_ports_reads_nothing_and_leaves_nothing() -> None:
    table = HostPortTable()
    ports = HostPorts(MemoryKube(), table, (), "me")
    assert ports.held() == []
    ports.reserve([BLOCK])
    ports.close()
    assert len(table) == 0


async def test_passes_do_not_wait_for_each_other() -> None:
    table, kube = HostPortTable(), MemoryKube()
    stuck, quick = (HostPorts(kube, table, (), uid) for uid in ("stuck", "quick"))
    await stuck.read()
    stuck.reserve([BLOCK])
    async with asyncio.timeout(1):
        await quick.read()
    assert quick.held() == [BLOCK]

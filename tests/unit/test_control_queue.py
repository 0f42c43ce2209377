"""The work queue: one pass for many events, never two at once, none lost."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moriio_operator.control.queue import Key, WorkQueue

A, B = Key("team", "a"), Key("team", "b")
SOON_S = 0.01
LONG_S = 30.0
# Long enough for a busy machine to look before it is over.
REST_S = 0.2


async def taken(queue: WorkQueue) -> Key:
    return await asyncio.wait_for(queue.get(), 5)


async def nothing_is_due(queue: WorkQueue) -> bool:
    """Return whether a taker would wait; the loop goes round so that all that is due can come."""
    taker = asyncio.create_task(queue.get())
    for _ in range(3):
        await asyncio.sleep(0)
    taker.cancel()
    return not taker.done()


def test_a_key_reads_as_namespace_and_name() -> None:
    assert str(A) == "team/a"


async def test_keys_come_in_the_order_in_which_they_became_due() -> None:
    queue = WorkQueue()
    queue.add(A)
    queue.add(B)
    assert [await taken(queue), await taken(queue)] == [A, B]


async def test_many_events_become_one_pass() -> None:
    queue = WorkQueue()
    for _ in range(10):
        queue.add(A)
    assert len(queue) == 1
    assert await taken(queue) == A
    assert await nothing_is_due(queue)


async def test_an_event_during_a_pass_makes_one_more_pass_and_not_a_second_at_once() -> None:
    queue = WorkQueue()
    queue.add(A)
    await taken(queue)
    queue.add(A)
    queue.add(A)
    assert await nothing_is_due(queue)
    queue.done(A)
    assert await taken(queue) == A
    queue.done(A)
    assert await nothing_is_due(queue)


async def test_another_key_is_not_held_up() -> None:
    queue = WorkQueue()
    queue.add(A)
    await taken(queue)
    queue.add(A)
    queue.add(B)
    assert await taken(queue) == B


async def test_a_later_appointment_comes_when_it_is_due() -> None:
    queue = WorkQueue()
    queue.add_later(A, SOON_S)
    assert len(queue) == 0
    assert await taken(queue) == A


async def test_of_two_appointments_the_earlier_stands() -> None:
    started = time.monotonic()
    for first, second in ((LONG_S, SOON_S), (SOON_S, LONG_S)):
        queue = WorkQueue()
        queue.add_later(A, first)
        queue.add_later(A, second)
        assert await taken(queue) == A
        queue.done(A)
        assert queue._timers == {}
    assert time.monotonic() - started < 5


async def test_what_is_due_now_makes_an_appointment_moot() -> None:
    queue = WorkQueue()
    queue.add_later(A, SOON_S)
    queue.add(A)
    assert queue._timers == {}
    queue.add_later(A, SOON_S)
    assert queue._timers == {}


async def test_an_appointment_that_is_due_during_a_pass_waits_for_its_end() -> None:
    queue = WorkQueue()
    queue.add(A)
    await taken(queue)
    queue.add_later(A, 0)
    await asyncio.sleep(SOON_S)
    assert len(queue) == 1
    assert await nothing_is_due(queue)
    queue.done(A)
    assert await taken(queue) == A


async def at_rest(rest_s: float, *, due_meanwhile: bool = False) -> WorkQueue:
    """Give a queue whose only key was just worked on."""
    queue = WorkQueue()
    queue.add(A)
    await taken(queue)
    if due_meanwhile:
        queue.add(A)
    queue.done(A, rest_s)
    return queue


async def test_an_event_during_a_rest_is_answered_at_its_end() -> None:
    started = time.monotonic()
    queue = await at_rest(REST_S)
    queue.add(A)
    assert len(queue) == 0
    assert await nothing_is_due(queue)
    assert await taken(queue) == A
    assert time.monotonic() - started >= REST_S
    assert await nothing_is_due(queue)


async def test_an_appointment_within_a_rest_comes_at_its_end() -> None:
    started = time.monotonic()
    queue = await at_rest(REST_S)
    queue.add_later(A, SOON_S)
    assert await taken(queue) == A
    assert time.monotonic() - started >= REST_S


async def test_an_appointment_beyond_a_rest_is_kept() -> None:
    queue = await at_rest(SOON_S)
    started = time.monotonic()
    queue.add_later(A, REST_S)
    assert await taken(queue) == A
    assert time.monotonic() - started >= REST_S


async def test_a_key_that_became_due_during_its_pass_rests_first() -> None:
    started = time.monotonic()
    queue = await at_rest(REST_S, due_meanwhile=True)
    assert len(queue) == 0
    assert await nothing_is_due(queue)
    assert await taken(queue) == A
    assert time.monotonic() - started >= REST_S


async def test_events_during_a_long_rest_make_one_appointment_for_its_end() -> None:
    queue = await at_rest(LONG_S)
    queue.add_later(A, 2 * LONG_S)
    for _ in range(3):
        queue.add(A)
    assert queue._timers[A].when() == queue._rests[A]
    assert len(queue._timers) == 1


async def test_a_rest_is_over_once_the_key_was_taken_again() -> None:
    queue = await at_rest(SOON_S)
    queue.add(A)
    assert await taken(queue) == A
    queue.done(A)
    queue.add(A)
    assert len(queue) == 1
    assert queue._rests == {}


async def test_a_key_that_rests_holds_no_other_up() -> None:
    queue = await at_rest(LONG_S)
    queue.add(A)
    queue.add(B)
    assert await taken(queue) == B


@pytest.mark.parametrize("workers", [1, 3])
@given(events=st.lists(st.sampled_from([A, B, Key("other", "a")]), max_size=30))
def test_whatever_is_added_is_worked_on_after_it_was_added(workers: int, events: list[Key]) -> None:
    asyncio.run(_work_off(workers, events))


async def _work_off(workers: int, events: list[Key]) -> None:
    queue, stale, busy = WorkQueue(), set[Key](), set[Key]()

    async def work() -> None:
        while True:
            key = await queue.get()
            assert key not in busy
            busy.add(key)
            stale.discard(key)
            await asyncio.sleep(0)
            busy.discard(key)
            queue.done(key)

    crew = [asyncio.create_task(work()) for _ in range(workers)]
    for event in events:
        stale.add(event)
        queue.add(event)
        await asyncio.sleep(0)
    for _ in range(4 * len(events) + 4):
        await asyncio.sleep(0)
    for worker in crew:
        worker.cancel()
    for outcome in await asyncio.gather(*crew, return_exceptions=True):
        assert isinstance(outcome, asyncio.CancelledError)
    assert (stale, len(queue)) == (set(), 0)


async def test_an_appointment_that_is_made_during_a_pass_waits_for_the_rest_that_follows() -> None:
    queue, loop = WorkQueue(), asyncio.get_running_loop()
    queue.add(A)
    key = await queue.get()
    began = loop.time()
    queue.add_later(key, 0.01)
    queue.done(key, 0.2)
    assert await asyncio.wait_for(queue.get(), 5) == A
    assert loop.time() - began >= 0.2


async def test_of_a_key_that_nobody_asks_for_again_nothing_is_remembered() -> None:
    queue = WorkQueue()
    queue.add(A)
    queue.done(await queue.get(), 0.01)
    assert queue._rests
    await asyncio.sleep(0.05)
    assert not queue._rests

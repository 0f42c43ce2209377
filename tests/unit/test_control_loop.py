"""Workers: each failure backs off alone, each pass is observed, and no worker dies of an object."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from moriio_operator.control.loop import Loop, Next, backoff_s
from moriio_operator.control.queue import Key, WorkQueue
from moriio_operator.kube.errors import ApiError, ConflictError
from moriio_operator.kube.lease import LeaseLostError

from unit.waiting import until

KEY = Key("team", "llm")
Outcome = Next | float | Exception | None


class SpyQueue(WorkQueue):
    """Remembers appointments and rests instead of making them."""

    def __init__(self) -> None:
        super().__init__()
        self.later: list[float] = []
        self.rests: list[float] = []

    def add_later(self, key: Key, delay_s: float) -> None:
        if delay_s == 0:
            super().add_later(key, 0)
        else:
            self.later.append(delay_s)

    def done(self, key: Key, rest_s: float = 0) -> None:
        self.rests.append(rest_s)
        super().done(key)


@pytest.fixture(autouse=True)
def steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """No jitter."""
    monkeypatch.setattr("random.uniform", lambda _low, _high: 1.0)


def scripted(*outcomes: Outcome) -> Callable[[Key], Awaitable[Next]]:
    rest = list(outcomes)

    async def reconcile(_: Key) -> Next:
        outcome = rest.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome if isinstance(outcome, Next) else Next(outcome)

    return reconcile


async def worked(*outcomes: Outcome) -> tuple[list[float], list[float], list[str]]:
    """Run one pass an outcome; give the appointments, rests and results that were observed."""
    queue, seen, done = SpyQueue(), list[str](), asyncio.Event()

    def observe(result: str, seconds: float) -> None:
        assert seconds >= 0
        seen.append(result)
        if len(seen) == len(outcomes):
            done.set()
        else:
            queue.add(KEY)

    queue.add(KEY)
    running = asyncio.create_task(Loop(queue, {KEY.kind: scripted(*outcomes)}, observe).run(2))
    await asyncio.wait_for(done.wait(), 5)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    return queue.later, queue.rests, seen


CONFLICT = ConflictError(409, "Conflict", "changed")


@pytest.mark.parametrize(
    ("outcomes", "later", "rests", "results"),
    [
        ([None], [], [0.5], ["ok"]),
        ([30.0], [30.0], [0.5], ["ok"]),
        ([Next(30.0, 2.0)], [30.0], [2.0], ["ok"]),
        ([CONFLICT], [0.2], [0.2], ["conflict"]),
        ([CONFLICT] * 7, [*[0.2] * 5, 1.0, 2.0], [*[0.2] * 5, 1.0, 2.0], ["conflict"] * 7),
        (
            [*[CONFLICT] * 5, None, CONFLICT],
            [0.2] * 6,
            [*[0.2] * 5, 0.5, 0.2],
            [*["conflict"] * 5, "ok", "conflict"],
        ),
        ([ApiError(500, "x", "y")], [1.0], [1.0], ["error"]),
        ([ValueError()] * 3, [1.0, 2.0, 4.0], [1.0, 2.0, 4.0], ["error"] * 3),
        ([ValueError(), None, ValueError()], [1.0, 1.0], [1.0, 0.5, 1.0], ["error", "ok", "error"]),
        (
            [ValueError(), CONFLICT, ValueError()],
            [1.0, 0.2, 2.0],
            [1.0, 0.2, 2.0],
            ["error", "conflict", "error"],
        ),
    ],
)
async def test_when_a_key_is_looked_at_again_and_how_long_it_rests(
    outcomes: list[Outcome], later: list[float], rests: list[float], results: list[str]
) -> None:
    assert await worked(*outcomes) == (later, rests, results)


async def test_events_do_not_cut_a_back_off_short(monkeypatch: pytest.MonkeyPatch) -> None:
    # So long that a machine that stands still for a while is not taken for it.
    monkeypatch.setattr("moriio_operator.control.loop._FIRST_S", 30.0)
    queue, passes = WorkQueue(), list[float]()

    async def broken(key: Key) -> Next:
        passes.append(asyncio.get_running_loop().time())
        # As the echo of its own write would.
        queue.add(key)
        raise ValueError

    queue.add(KEY)
    running = asyncio.create_task(
        Loop(queue, {KEY.kind: broken}, lambda _result, _seconds: None).run(1)
    )
    loop = asyncio.get_running_loop()
    until = loop.time() + 0.6
    while loop.time() < until:
        queue.add(KEY)
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert len(passes) == 1


@pytest.mark.parametrize(
    ("failures", "seconds"), [(1, 1), (2, 2), (5, 16), (7, 60), (8, 60), (10_000, 60)]
)
def test_back_off(failures: int, seconds: int) -> None:
    assert backoff_s(failures) == seconds


async def test_a_key_that_waits_holds_no_worker() -> None:
    queue, order, done = WorkQueue(), list[str](), asyncio.Event()

    async def reconcile(key: Key) -> Next:
        order.append(key.name)
        if key.name == "broken":
            raise ValueError
        done.set()
        return Next()

    queue.add(Key("team", "broken"))
    queue.add(KEY)
    running = asyncio.create_task(Loop(queue, {KEY.kind: reconcile}, lambda _r, _s: None).run(1))
    await asyncio.wait_for(done.wait(), 5)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert order == ["broken", "llm"]


async def test_a_worker_that_dies_ends_the_loop() -> None:
    queue = WorkQueue()
    queue.add(KEY)

    def observe(_result: str, _seconds: float) -> None:
        raise RuntimeError("no observer")

    with pytest.raises(RuntimeError, match="no observer"):
        await asyncio.wait_for(Loop(queue, {KEY.kind: scripted(None)}, observe).run(2), 5)


async def test_a_pass_that_finds_its_lease_lost_ends_the_loop() -> None:
    queue = WorkQueue()
    queue.add(KEY)
    lost = LeaseLostError("the Lease a/b is not held any more")
    with pytest.raises(LeaseLostError):
        await asyncio.wait_for(
            Loop(queue, {KEY.kind: scripted(lost)}, lambda _r, _s: None).run(2), 5
        )


async def test_each_kind_of_key_has_a_reconciler_of_its_own() -> None:
    queue, done = WorkQueue(), list[Key]()
    node = Key("", "n1", "Node")

    async def deployments(key: Key) -> Next:
        assert key == KEY
        done.append(key)
        return Next()

    async def nodes(key: Key) -> Next:
        assert key == node
        done.append(key)
        if len(done) < 4:
            raise ApiError(500, "InternalError", "boom")
        return Next()

    seen: list[str] = []
    loop = Loop(
        queue, {KEY.kind: deployments, "Node": nodes}, lambda result, _seconds: seen.append(result)
    )
    queue.add(KEY)
    queue.add(node)
    running = asyncio.create_task(loop.run(2))
    await until(lambda: len(seen) == 2)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert sorted(seen) == ["error", "ok"]
    assert set(done) == {KEY, node}


def test_a_key_is_named_by_its_kind_where_that_is_not_the_usual_one() -> None:
    assert (str(KEY), str(Key("", "n1", "Node"))) == ("team/llm", "Node n1")

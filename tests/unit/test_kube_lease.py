"""One candidate leads at a time; who may have lost the Lease writes no more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from moriio_operator.kube.errors import ApiError, UnreachableError
from moriio_operator.kube.kinds import Kind
from moriio_operator.kube.lease import Candidacy, Elector, LeaseLostError
from moriio_operator.kube.objects import Object

from unit.memory_kube import MemoryKube, Refusal

DURATION_S, DEADLINE_S, RETRY_S = 15.0, 10.0, 0.001


class Clock:
    """A clock that tests turn."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def candidate(kube: MemoryKube, name: str, clock: Clock) -> Elector:
    return Elector(
        kube, Candidacy("sys", "lease", name, "tests", DURATION_S, DEADLINE_S, RETRY_S), clock=clock
    )


def lease(kube: MemoryKube) -> Object:
    found: Object = kube.one("Lease", "lease")["spec"]
    return found


async def within(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while True:
            if holds():
                return
            await asyncio.sleep(0.001)


def unreachable(_verb: str, _obj: Object) -> ApiError:
    return UnreachableError(TimeoutError("no answer"))


async def led(kube: MemoryKube, clock: Clock, name: str = "one") -> Elector:
    elector = candidate(kube, name, clock)
    await asyncio.wait_for(elector.acquire(), 5)
    return elector


async def test_the_first_candidate_leads_and_writes_the_lease_as_others_read_it() -> None:
    kube = MemoryKube()
    elector = await led(kube, Clock())
    assert elector.leads
    assert not elector.stands_by
    assert lease(kube)["holderIdentity"] == "one"
    assert lease(kube)["leaseDurationSeconds"] == 15
    assert lease(kube)["leaseTransitions"] == 0
    assert lease(kube)["renewTime"].endswith("Z")


async def test_the_second_stands_by_until_the_holder_was_silent_for_the_whole_duration() -> None:
    kube, clock = MemoryKube(), Clock()
    await led(kube, clock)
    other = candidate(kube, "two", clock)
    waiting = asyncio.create_task(other.acquire())
    await within(lambda: other.stands_by)
    clock.now += DURATION_S
    await asyncio.sleep(0.05)
    assert not waiting.done()
    clock.now += 0.1
    await asyncio.wait_for(waiting, 5)
    assert other.leads
    assert (lease(kube)["holderIdentity"], lease(kube)["leaseTransitions"]) == ("two", 1)


async def test_the_duration_counts_from_the_last_renewal_that_was_seen() -> None:
    kube, clock = MemoryKube(), Clock()
    holder = await led(kube, clock)
    keeping = asyncio.create_task(holder.keep())
    other = candidate(kube, "two", clock)
    waiting = asyncio.create_task(other.acquire())
    for _ in range(6):
        clock.now += DEADLINE_S / 2
        writes = len(kube.writes)
        await within(lambda seen=writes: len(kube.writes) > seen + 2)  # type: ignore[misc]
    assert (holder.leads, other.leads) == (True, False)
    for task in (keeping, waiting):
        task.cancel()
    await asyncio.gather(keeping, waiting, return_exceptions=True)


async def test_a_released_lease_is_taken_at_once() -> None:
    kube, clock = MemoryKube(), Clock()
    holder = await led(kube, clock)
    await holder.release()
    assert not holder.leads
    assert (await led(kube, clock, "two")).leads


async def test_releasing_what_is_not_held_writes_nothing() -> None:
    kube, clock = MemoryKube(), Clock()
    await candidate(kube, "one", clock).release()
    assert kube.writes == []
    await led(kube, clock, "two")
    kube.writes.clear()
    await candidate(kube, "one", clock).release()
    assert kube.writes == []


class Deaf(MemoryKube):
    """An API server that stores what is written and never answers."""

    async def create(self, obj: Object, manager: str, *, dry_run: bool = False) -> Object:
        await super().create(obj, manager, dry_run=dry_run)
        raise UnreachableError(TimeoutError("no answer"))


async def test_a_lease_that_was_taken_without_an_answer_is_led_by_and_released() -> None:
    kube, clock = Deaf(), Clock()
    elector = await led(kube, clock)
    assert elector.leads
    other = Elector(kube, Candidacy("sys", "other", "one", "tests"), clock=clock)
    taking = asyncio.create_task(other.acquire())
    await within(lambda: ("Lease", "other") in kube.objects)
    taking.cancel()
    await asyncio.gather(taking, return_exceptions=True)
    await other.release()
    assert kube.one("Lease", "other")["spec"]["holderIdentity"] == ""


async def test_a_lease_whose_last_renewal_got_no_answer_is_released() -> None:
    kube, clock = MemoryKube(), Clock()
    holder = await led(kube, clock)
    kube.put(kube.one("Lease", "lease"))
    await holder.release()
    assert lease(kube)["holderIdentity"] == ""


async def test_a_release_that_fails_leaves_the_lease_to_run_out() -> None:
    kube, clock = MemoryKube(), Clock()
    holder = await led(kube, clock)
    kube.refuse = unreachable
    await holder.release()
    assert not holder.leads
    assert lease(kube)["holderIdentity"] == "one"


async def test_who_cannot_renew_gives_up_before_anybody_else_may_lead() -> None:
    kube, clock = MemoryKube(), Clock()
    holder = await led(kube, clock)
    kube.refuse = unreachable
    keeping = asyncio.create_task(holder.keep())
    await asyncio.sleep(0.05)
    assert not keeping.done()
    clock.now += DEADLINE_S
    with pytest.raises(LeaseLostError):
        await asyncio.wait_for(keeping, 5)
    assert DEADLINE_S < DURATION_S


async def test_a_holder_that_was_paused_past_its_lease_writes_nothing_more() -> None:
    kube, clock = MemoryKube(), Clock()
    holder = await led(kube, clock)
    clock.now += DURATION_S * 2
    with pytest.raises(LeaseLostError):
        holder.check()
    writes = list(kube.writes)
    with pytest.raises(LeaseLostError):
        await asyncio.wait_for(holder.keep(), 5)
    assert kube.writes == writes


async def test_a_lease_that_another_took_ends_the_holder() -> None:
    kube, clock = MemoryKube(), Clock()
    holder = await led(kube, clock)
    taken = kube.one("Lease", "lease")
    kube.put({**taken, "spec": {**taken["spec"], "holderIdentity": "two"}})
    with pytest.raises(LeaseLostError, match="was taken"):
        await asyncio.wait_for(holder.keep(), 5)


async def test_a_lease_that_was_deleted_ends_the_holder() -> None:
    kube, clock = MemoryKube(), Clock()
    holder = await led(kube, clock)
    kube.remove("Lease", "lease")
    keeping = asyncio.create_task(holder.keep())
    await asyncio.sleep(0.05)
    clock.now += DEADLINE_S
    with pytest.raises(LeaseLostError):
        await asyncio.wait_for(keeping, 5)


async def test_a_renewal_whose_answer_was_lost_is_recognized_as_ours() -> None:
    kube, clock = MemoryKube(), Clock()
    holder = await led(kube, clock)
    # Written all the same: the next renewal finds another version, of its own hand.
    kube.put(kube.one("Lease", "lease"))
    writes = len(kube.writes)
    keeping = asyncio.create_task(holder.keep())
    await within(lambda: len(kube.writes) > writes)
    assert holder.leads
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)


class Unreadable(MemoryKube):
    """An API server whose leases cannot be read for a while."""

    away = False

    async def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        if self.away:
            raise UnreachableError(TimeoutError("no answer"))
        return await super().get(kind, namespace, name)


async def test_while_nobody_tells_who_wrote_the_lease_the_holder_tries_on_until_its_deadline() -> (
    None
):
    kube, clock = Unreadable(), Clock()
    holder = await led(kube, clock)
    kube.put(kube.one("Lease", "lease"))
    kube.away = True
    keeping = asyncio.create_task(holder.keep())
    await asyncio.sleep(0.05)
    assert not keeping.done()
    clock.now += DEADLINE_S
    with pytest.raises(LeaseLostError):
        await asyncio.wait_for(keeping, 5)


async def test_a_candidate_that_cannot_look_goes_on_trying() -> None:
    kube, clock = Unreadable(), Clock()
    kube.away = True
    waiting = asyncio.create_task(candidate(kube, "one", clock).acquire())
    await asyncio.sleep(0.05)
    assert not waiting.done()
    kube.away = False
    await asyncio.wait_for(waiting, 5)


@pytest.mark.parametrize("verb", ["create", "update"])
async def test_an_api_server_that_is_away_is_waited_for(verb: str) -> None:
    kube, clock = MemoryKube(), Clock()
    if verb == "update":
        await (await led(kube, clock)).release()
    allowed: Refusal = kube.refuse
    kube.refuse = unreachable
    other = candidate(kube, "two", clock)
    waiting = asyncio.create_task(other.acquire())
    await asyncio.sleep(0.05)
    assert not waiting.done()
    kube.refuse = allowed
    await asyncio.wait_for(waiting, 5)
    assert other.leads


async def test_of_two_that_try_at_once_one_leads() -> None:
    kube, clock = MemoryKube(), Clock()
    both = [candidate(kube, name, clock) for name in ("one", "two")]
    waiting = [asyncio.create_task(each.acquire()) for each in both]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED, timeout=5)
    await within(lambda: any(each.stands_by for each in both))
    assert sum(each.leads for each in both) == 1
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)

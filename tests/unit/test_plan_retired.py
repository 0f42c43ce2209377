"""Blocks are kept back while an engine lives that may know them, and no longer."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from moriio_operator.api.ports import PortRange
from moriio_operator.api.status import (
    EngineState,
    EngineStatus,
    PortAllocation,
    RetiredPorts,
    Status,
)
from moriio_operator.facts.terms import Role
from moriio_operator.observe.engine import Engine
from moriio_operator.plan.ports import MOST_RETIRED, retired, served

from unit.memory_kube import MemoryKube
from unit.peers import Peers
from unit.played import Operator
from unit.samples import REVISION, engine, resource

READY, ENDED = EngineState.READY, EngineState.ENDED
P, D = Role.PREFILL, Role.DECODE


def known(serial: int, role: Role = D, state: EngineState = READY, *, shown: bool) -> EngineStatus:
    return EngineStatus(
        pod=f"llm-{role}-{serial}",
        role=role.value,
        revision=REVISION,
        port_base=20_000 + serial,
        ports=4,
        state=state,
        served=shown,
    )


def kept(status: Status, *engines: Engine, cursor: int = 100) -> list[int]:
    return [block.base for block in retired(status, engines, cursor)]


def test_who_served_and_is_gone_is_remembered_while_its_peer_lives() -> None:
    status = Status(engines=[known(0, P, shown=True), known(4, shown=True)])
    assert kept(status, engine(0, P)) == [20_004]
    assert kept(status, engine(0, P), engine(4, D)) == []


def test_with_the_last_one_who_was_there_then_it_is_forgotten() -> None:
    status = Status(
        port_allocation=PortAllocation(retired=[RetiredPorts(base=20_004, ports=4, until=100)])
    )
    assert kept(status, engine(96, P), engine(100, D)) == [20_004]
    assert kept(status, engine(100, P), engine(104, D)) == []
    assert kept(status) == []


@pytest.mark.parametrize("state", [ENDED, EngineState.TERMINATING])
def test_who_never_served_leaves_nothing_behind(state: EngineState) -> None:
    assert kept(Status(engines=[known(4, state=state, shown=False)]), engine(0, P)) == []


@pytest.mark.parametrize("state", [EngineState.PENDING, EngineState.STARTING])
def test_who_vanished_before_it_was_seen_to_serve_may_have(state: EngineState) -> None:
    assert kept(Status(engines=[known(4, state=state, shown=False)]), engine(0, P)) == [20_004]


def test_of_very_many_the_last_are_kept() -> None:
    many = [RetiredPorts(base=20_000 + 4 * n, ports=4, until=9_000) for n in range(MOST_RETIRED)]
    status = Status(
        port_allocation=PortAllocation(retired=many), engines=[known(8_000, shown=True)]
    )
    bases = kept(status, engine(0, P), cursor=9_004)
    assert (len(bases), bases[-1], bases[0]) == (MOST_RETIRED, 28_000, 20_004)


@pytest.mark.parametrize("state", [READY, EngineState.UNREADY])
def test_who_serves_has_served(state: EngineState) -> None:
    assert served(engine(4, D, state), Status())


def test_who_served_once_has_served_for_good() -> None:
    status = Status(engines=[known(4, shown=True), known(8, shown=False)])
    assert served(engine(4, D, ENDED), status)
    assert not served(engine(8, D, ENDED), status)
    assert not served(engine(12, D, EngineState.STARTING), status)


# Whose engine goes, and into which range the operator moves then.
LOSSES = st.lists(
    st.tuples(st.sampled_from(["prefill", "decode"]), st.sampled_from([24, 28, 40])), max_size=12
)


@settings(max_examples=40)
@given(LOSSES)
def test_in_ranges_however_small_no_engine_gets_ports_that_a_peer_knows(
    losses: list[tuple[str, int]],
) -> None:
    operator, peers = Operator(MemoryKube(resource()), ports=PortRange(20_000, 20_023)), Peers()
    asyncio.run(operator.settle())
    for role, length in losses:
        peers.look(operator.kube.of_kind("Pod"))
        for name in operator.pods():
            if role in name:
                operator.kube.remove("Pod", name)
        now = operator.time + timedelta(hours=1)
        operator = Operator(operator.kube, ports=PortRange(20_000, 20_000 + length - 1))
        operator.time = now
        asyncio.run(operator.step())
        peers.look(operator.kube.of_kind("Pod"))
        asyncio.run(operator.settle())
        peers.look(operator.kube.of_kind("Pod"))
        if len(operator.pods()) < 2:
            assert operator.condition("PortsAllocated").reason == "PortsExhausted"

"""Engines that share nodes: whose ports count, and which of two gives way."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moriio_operator.api.ports import PortBlock
from moriio_operator.api.reasons import Reason
from moriio_operator.api.status import EngineState
from moriio_operator.facts.terms import Role
from moriio_operator.observe.engine import Engine
from moriio_operator.plan.neighbours import unplaced, without_duplicates

from unit.samples import NOW, engine, later

PENDING = EngineState.PENDING


def on_host(
    uid: str, base: int, *, node: str | None = None, created: datetime | None = NOW
) -> Engine:
    state = PENDING if node is None else EngineState.READY
    made = engine(0, Role.DECODE, state)
    return replace(
        made,
        pod=f"pod-{uid}",
        uid=uid,
        ports=PortBlock(base, 4),
        host_network=True,
        node=node,
        created=created,
    )


def gives_way(mine: Engine, *neighbours: Engine) -> bool:
    [judged] = without_duplicates([mine], neighbours)
    if judged == mine:
        return False
    assert judged.failure is not None
    assert (judged.state, judged.failure.reason) == (EngineState.ENDED, Reason.PORTS_DOUBLED)
    assert not judged.failed
    return True


def test_the_younger_of_two_that_no_node_has_gives_way() -> None:
    older, younger = on_host("a", 20_000), on_host("b", 20_002, created=later(1))
    assert gives_way(younger, older)
    assert not gives_way(older, younger)


def test_of_twins_exactly_one_gives_way() -> None:
    one, other = on_host("a", 20_000), on_host("b", 20_000)
    assert gives_way(one, other) is not gives_way(other, one)


def test_one_that_waits_gives_way_to_one_that_a_node_has_even_to_a_younger() -> None:
    placed = on_host("b", 20_000, node="n1", created=later(60))
    assert gives_way(on_host("a", 20_000), placed)


def test_who_holds_the_ports_is_named() -> None:
    [judged] = without_duplicates([on_host("a", 20_000)], [on_host("b", 20_000, node="n1")])
    assert judged.failure is not None
    assert judged.failure.message == (
        "its ports are also those of pod-b, which came first: it is replaced"
    )


@pytest.mark.parametrize(
    "neighbour",
    [
        on_host("b", 20_004, node="n1"),
        replace(on_host("b", 20_000, node="n1"), host_network=False),
    ],
    ids=["other ports", "an address of its own"],
)
def test_who_shares_no_port_of_the_node_is_no_obstacle(neighbour: Engine) -> None:
    assert not gives_way(on_host("a", 20_000), neighbour)


def test_one_that_a_node_has_stays_whoever_has_its_ports_elsewhere() -> None:
    assert not gives_way(
        on_host("a", 20_000, node="n1"), on_host("b", 20_000, node="n2", created=later(-60))
    )


def test_engines_of_one_deployment_are_judged_among_themselves_too() -> None:
    mine = [on_host("a", 20_000), on_host("b", 20_000, created=later(1))]
    first, second = without_duplicates(mine, [])
    assert (first.state, second.state) == (PENDING, EngineState.ENDED)


ENGINES = st.lists(
    st.tuples(st.integers(20_000, 20_012), st.sampled_from([None, "n1", "n2"]), st.integers(0, 3)),
    max_size=8,
)


@given(ENGINES)
def test_after_all_have_judged_no_two_that_wait_share_a_port(
    made: list[tuple[int, str | None, int]],
) -> None:
    engines = [
        on_host(str(index), base, node=node, created=later(age))
        for index, (base, node, age) in enumerate(made)
    ]
    judged = [without_duplicates([e], [o for o in engines if o is not e])[0] for e in engines]
    staying = [engine for engine in judged if engine.state is not EngineState.ENDED]
    for one in staying:
        for other in staying:
            if one.uid != other.uid and one.ports.overlaps(other.ports):
                assert one.node is not None
                assert other.node is not None


def test_an_engine_waits_for_a_node_until_it_has_one() -> None:
    assert unplaced([on_host("a", 20_000)], NOW)
    assert unplaced([on_host("a", 20_000, created=None)], NOW)
    assert not unplaced([on_host("a", 20_000, node="n1"), engine(0, state=PENDING)], NOW)


@pytest.mark.parametrize("age_s", [120, -120])
def test_a_young_engine_that_waits_may_have_to_give_way(age_s: int) -> None:
    assert unplaced([on_host("a", 20_000)], later(age_s))


def test_of_an_engine_that_has_waited_for_long_no_other_process_is_unaware() -> None:
    assert not unplaced([on_host("a", 20_000)], later(121))

"""The status is read and written without loss, and nothing unset is written."""

from __future__ import annotations

import pytest
from moriio_operator.api.status import (
    Condition,
    EngineState,
    EngineStatus,
    PortAllocation,
    RoleStatus,
    Status,
    Summary,
)

from unit.samples import Json


def condition() -> Condition:
    return Condition(
        type="Ready",
        status="True",
        observed_generation=3,
        last_transition_time="2026-05-04T12:00:00Z",
        reason="Serving",
        message="requests are served",
    )


def status() -> Status:
    return Status(
        observed_generation=3,
        port_allocation=PortAllocation(cursor=12),
        revision="bcdfghjk",
        summary=Summary(prefill="1/1", decode="0/1", reason="Starting"),
        conditions=[condition()],
        roles=[RoleStatus(name="prefill", revision="bcdfghjk", desired=1, pods=1, ready=1)],
        engines=[
            EngineStatus(
                pod="llm-prefill-0",
                role="prefill",
                revision="bcdfghjk",
                port_base=20_000,
                ports=4,
                state=EngineState.READY,
            )
        ],
    )


def test_a_status_survives_the_way_through_the_api() -> None:
    assert Status.from_object({"status": status().to_object()}) == status()


def test_nothing_unset_is_written() -> None:
    (engine,) = status().to_object()["engines"]
    assert engine == {
        "pod": "llm-prefill-0",
        "role": "prefill",
        "revision": "bcdfghjk",
        "portBase": 20_000,
        "ports": 4,
        "state": "Ready",
        "served": False,
    }


def test_an_object_without_a_status_has_the_empty_one() -> None:
    assert Status.from_object({}) == Status.from_object({"status": None}) == Status()
    assert Status().port_allocation.cursor == 0


def test_fields_of_a_newer_operator_are_ignored() -> None:
    stored = {"portAllocation": {"cursor": 4, "strategy": "x"}, "fence": {}}
    read = Status.from_object({"status": stored})
    assert read == Status(port_allocation=PortAllocation(cursor=4))


def test_the_names_of_the_first_release_are_read_and_those_of_today_written() -> None:
    retired = {"base": 20_000, "ports": 4, "until": 8}
    read = Status.from_object({"status": {"portCursor": 12, "retiredPorts": [retired]}})
    assert read.to_object()["portAllocation"] == {"cursor": 12, "retired": [retired]}
    assert not {"portCursor", "retiredPorts"} & read.to_object().keys()


def test_once_both_are_there_the_name_of_today_counts() -> None:
    stored = {"portAllocation": {"cursor": 12}, "portCursor": 4}
    assert Status.from_object({"status": stored}).port_allocation.cursor == 12


def test_of_a_broken_list_of_retired_ports_the_cursor_and_the_good_items_count() -> None:
    good = {"base": 20_000, "ports": 4, "until": 8}
    stored = {"portAllocation": {"cursor": 12, "retired": [good, {"base": "x"}]}, "engines": 5}
    read = Status.from_object({"status": stored}).port_allocation
    assert (read.cursor, [block.base for block in read.retired]) == (12, [20_000])


@pytest.mark.parametrize(
    ("beyond", "lost"),
    [
        ({"engines": [{**status().to_object()["engines"][0], "state": "Levitating"}]}, "engines"),
        ({"conditions": [{"type": "Ready"}]}, "conditions"),
        ({"roles": "none"}, "roles"),
    ],
)
def test_of_a_status_that_does_not_read_in_one_place_the_rest_counts(
    beyond: Json, lost: str
) -> None:
    whole = status().to_object()
    without = Status.from_object({"status": {k: v for k, v in whole.items() if k != lost}})
    assert Status.from_object({"status": {**whole, **beyond}}) == without
    assert without.port_allocation.cursor == 12


def test_of_a_list_the_items_that_read_count() -> None:
    [engine] = status().to_object()["engines"]
    other = {**engine, "pod": "llm-decode-99"}
    broken = {**status().to_object(), "engines": [{**engine, "state": "Levitating"}, other]}
    assert [each.pod for each in Status.from_object({"status": broken}).engines] == [other["pod"]]


@pytest.mark.parametrize("cursor", [None, 0, -4])
def test_a_status_that_does_not_read_may_have_no_cursor(cursor: int | None) -> None:
    stored = {"portCursor": cursor, "engines": 5}
    assert Status.from_object({"status": stored}) == Status()

"""The status is read and written without loss, and nothing unset is written."""

from __future__ import annotations

import pytest
from moriio_operator.api.status import (
    Condition,
    EngineState,
    EngineStatus,
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
        port_cursor=12,
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
    assert Status().port_cursor == 0


def test_fields_of_a_newer_operator_are_ignored() -> None:
    assert Status.from_object({"status": {"portCursor": 4, "fence": {}}}) == Status(port_cursor=4)


@pytest.mark.parametrize(
    "beyond",
    [
        {"engines": [{**status().to_object()["engines"][0], "state": "Levitating"}]},
        {"conditions": [{"type": "Ready"}]},
        {"roles": "none"},
    ],
)
def test_of_a_status_that_does_not_read_the_cursor_is_kept(beyond: Json) -> None:
    stored = {**status().to_object(), **beyond}
    assert Status.from_object({"status": stored}) == Status(port_cursor=12)


@pytest.mark.parametrize("cursor", [None, 0, -4])
def test_a_status_that_does_not_read_may_have_no_cursor(cursor: int | None) -> None:
    stored = {"portCursor": cursor, "engines": 5}
    assert Status.from_object({"status": stored}) == Status()

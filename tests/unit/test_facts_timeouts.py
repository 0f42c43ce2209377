"""The times after which others give up."""

from __future__ import annotations

import pytest
from moriio_operator.facts import keys, router
from moriio_operator.facts.timeouts import TIMEOUTS, holding
from moriio_operator.facts.versions import NEWEST, OLDEST, Version

from unit.samples import spec

NAMES = {timeout.name: timeout for timeout in TIMEOUTS}


def test_every_row_has_a_source_a_meaning_and_a_name_of_its_own() -> None:
    assert all(row.source and row.meaning for row in TIMEOUTS)
    assert len(NAMES) == len(TIMEOUTS)
    assert {row.owner for row in TIMEOUTS} == {"vLLM", "vllm-router"}


@pytest.mark.parametrize("name", ["transfer_timeout", "defer_timeout", "recv_abort_timeout"])
def test_a_time_that_is_a_key_agrees_with_the_table_of_keys(name: str) -> None:
    key = next(key for key in keys.KEYS if key.name == name)
    row = NAMES[name]
    assert (str(row.default_s), row.first, row.field) == (key.default, key.first, key.comes_from)


def test_our_defaults_of_the_connector_are_those_of_vllm() -> None:
    connector = spec().connector
    assert NAMES["transfer_timeout"].default_s == connector.transfer_timeout_seconds
    assert NAMES["defer_timeout"].default_s == connector.defer_timeout_seconds
    assert NAMES["recv_abort_timeout"].default_s == connector.receive_abort_timeout_seconds
    assert NAMES["--request-timeout-secs"].default_s == spec().router.request_timeout_seconds


def test_the_routers_memory_is_what_engines_wait_for() -> None:
    assert NAMES["engine memory"].default_s == router.ENGINE_TTL_SECONDS


def test_a_version_has_the_times_that_came_until_it() -> None:
    assert set(holding(NEWEST)) == set(TIMEOUTS)
    old = {row.name for row in holding(OLDEST)}
    assert not old & {"transfer_timeout", "defer_timeout", "recv_abort_timeout"}
    assert NAMES["recv_abort_timeout"] not in holding(Version(0, 30))

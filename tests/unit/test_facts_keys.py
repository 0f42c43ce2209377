"""The table of the connector's keys, and of the variables that stood for some."""

from __future__ import annotations

import pytest
from moriio_operator.facts import keys
from moriio_operator.facts.keys import KEYS, VARIABLES
from moriio_operator.facts.versions import KNOWN, NEWEST, OLDEST, Version

TIMES = {"transfer_timeout", "defer_timeout"}
TUNING = {"qp_per_transfer", "post_batch_size", "num_workers"}
PORTS = {"http_port", "handshake_port", "notify_port"}
PROXY = {"proxy_ip", "proxy_ping_port"}


@pytest.mark.parametrize(
    ("version", "names"),
    [
        (Version(0, 20), PROXY | PORTS),
        (Version(0, 21), PROXY | PORTS),
        (Version(0, 22, 1), PROXY | PORTS | {"backend"}),
        (Version(0, 23), PROXY | PORTS | {"backend", "read_mode"} | TUNING | TIMES),
        (
            Version(0, 24),
            PROXY | PORTS | {"backend", "read_mode", "host_ip"} | TUNING | TIMES,
        ),
        (Version(0, 28), PORTS | {"backend", "read_mode", "host_ip"} | TUNING | TIMES),
        (
            Version(0, 31),
            PORTS | {"backend", "read_mode", "host_ip", "recv_abort_timeout"} | TUNING | TIMES,
        ),
    ],
)
def test_each_version_gets_the_keys_that_it_reads(version: Version, names: set[str]) -> None:
    assert set(keys.written(version)) == names


def test_what_a_version_demands_is_always_written() -> None:
    for version in KNOWN:
        demanded = {key.name for key in KEYS if key.demanded(version)}
        assert demanded <= set(keys.written(version))


def test_no_registration_of_its_own_is_asked_for_where_it_can_be_left_out() -> None:
    assert not PROXY & set(keys.written(NEWEST))
    assert set(keys.written(Version(0, 27, 1))) >= PROXY


def test_a_setting_is_a_variable_until_it_is_a_key_and_never_both() -> None:
    for version in KNOWN:
        as_variables = {variable.key for variable in keys.variables(version)}
        assert not as_variables & set(keys.written(version))
    assert {v.key for v in keys.variables(Version(0, 22, 1))} == {"read_mode", *TUNING}
    assert keys.variables(Version(0, 23)) == ()
    assert keys.variables() == ()


def test_every_row_has_a_source_and_a_name_of_its_own() -> None:
    assert all(key.source and key.comes_from for key in KEYS)
    assert all(variable.source for variable in VARIABLES)
    assert len({key.name for key in KEYS}) == len(KEYS)
    assert {variable.key for variable in VARIABLES} <= {key.name for key in KEYS}


def test_the_first_version_of_a_key_is_one_that_was_looked_at() -> None:
    assert all(keys.first(key.name) in KNOWN for key in KEYS)
    assert keys.first("proxy_ip") == OLDEST

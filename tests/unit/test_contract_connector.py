"""The connector's configuration holds every key with the type that vLLM reads."""

from __future__ import annotations

import json
from typing import Any

import pytest
from moriio_operator.api.names import Role
from moriio_operator.contract.connector import kv_transfer_config
from moriio_operator.contract.ports import placeholder

from unit.samples import FULL, MINIMAL, Json, spec


def config(role: Role = Role.PREFILL, base: Json = MINIMAL) -> dict[str, Any]:
    text = kv_transfer_config(spec({}, base).connector, role)
    for name, number in (("http", 20_100), ("handshake", 20_102), ("notify", 20_104)):
        text = text.replace(placeholder(name), str(number))
    read: dict[str, Any] = json.loads(text)
    return read


def extra(base: Json = MINIMAL) -> dict[str, Any]:
    found: dict[str, Any] = config(base=base)["kv_connector_extra_config"]
    return found


@pytest.mark.parametrize(
    ("role", "kv_role"), [(Role.PREFILL, "kv_producer"), (Role.DECODE, "kv_consumer")]
)
def test_a_role_has_one_direction(role: Role, kv_role: str) -> None:
    assert config(role)["kv_role"] == kv_role


def test_the_connector_is_named_and_a_failed_transfer_fails_its_request() -> None:
    assert config()["kv_connector"] == "MoRIIOConnector"
    assert config()["kv_load_failure_policy"] == "fail"


def test_defaults_are_written_out() -> None:
    assert extra() == {
        "host_ip": "$(POD_IP)",
        "http_port": 20_100,
        "handshake_port": 20_102,
        "notify_port": 20_104,
        "read_mode": True,
        "backend": "rdma",
        "qp_per_transfer": 1,
        "post_batch_size": -1,
        "num_workers": 1,
        "transfer_timeout": 30,
        "defer_timeout": 60,
        "recv_abort_timeout": 120,
    }


def test_every_field_arrives_at_its_key() -> None:
    given = extra(FULL)
    assert {key: given[key] for key in ("qp_per_transfer", "post_batch_size", "num_workers")} == {
        "qp_per_transfer": 4,
        "post_batch_size": 16,
        "num_workers": 2,
    }
    timeouts = ("transfer_timeout", "defer_timeout", "recv_abort_timeout")
    assert [given[key] for key in timeouts] == [31, 61, 121]


def test_write_mode_is_the_boolean_false_not_a_word() -> None:
    # vLLM takes the words `READ` and `yes` for false, without a word.
    assert extra(FULL)["read_mode"] is False


def test_no_heartbeat_is_asked_for() -> None:
    assert not {"proxy_ip", "proxy_ping_port"} & extra().keys()

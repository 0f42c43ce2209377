"""The connector's configuration holds every key with the type that vLLM reads."""

from __future__ import annotations

import json
from typing import Any

import pytest
from moriio_operator.api.ports import placeholder
from moriio_operator.facts import keys
from moriio_operator.facts.terms import Role
from moriio_operator.facts.versions import KNOWN, Version
from moriio_operator.stack.vllm_moriio import connector
from moriio_operator.stack.vllm_moriio.connector import kv_transfer_config

from unit.samples import FULL, MINIMAL, Json, spec


def config(role: Role = Role.PREFILL, base: Json = MINIMAL) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(plain(kv_transfer_config(spec({}, base).connector, role)))
    return read


def plain(text: str) -> str:
    """The JSON as an incarnation has it, with numbers for placeholders."""
    for name, number in (("http", 20_100), ("handshake", 20_102), ("notify", 20_104)):
        text = text.replace(placeholder(name), str(number))
    return text


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


@pytest.mark.parametrize(("backend", "value"), [("RDMA", "rdma"), ("XGMI", "xgmi")])
def test_the_backend_is_written_as_vllm_spells_it(backend: str, value: str) -> None:
    change = {"connector": {"backend": backend}, "network": {"mode": "Host"}}
    given = json.loads(plain(kv_transfer_config(spec(change).connector, Role.DECODE)))
    assert given["kv_connector_extra_config"]["backend"] == value


@pytest.mark.parametrize("version", KNOWN, ids=str)
def test_a_version_gets_its_keys_and_no_others(version: Version) -> None:
    given = json.loads(plain(kv_transfer_config(spec().connector, Role.PREFILL, version)))
    assert tuple(given["kv_connector_extra_config"]) == keys.written(version)


def test_a_version_that_demands_a_proxy_gets_an_empty_one() -> None:
    old = plain(kv_transfer_config(spec().connector, Role.PREFILL, Version(0, 27, 1)))
    given = json.loads(old)["kv_connector_extra_config"]
    assert (given["proxy_ip"], given["proxy_ping_port"]) == ("", 0)


def test_before_the_keys_came_variables_say_the_same() -> None:
    assert connector.variables(spec({}, FULL).connector, Version(0, 22, 1)) == {
        "VLLM_MORIIO_CONNECTOR_READ_MODE": "0",
        "VLLM_MORIIO_QP_PER_TRANSFER": "4",
        "VLLM_MORIIO_POST_BATCH_SIZE": "16",
        "VLLM_MORIIO_NUM_WORKERS": "2",
    }
    reads = connector.variables(spec().connector, Version(0, 20))
    assert reads["VLLM_MORIIO_CONNECTOR_READ_MODE"] == "1"
    assert connector.variables(spec().connector, Version(0, 23)) == {}
    assert connector.variables(spec().connector) == {}

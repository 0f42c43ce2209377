"""Flags and variables that the operator sets are refused in every spelling that vLLM takes."""

from __future__ import annotations

import re

import pytest
from moriio_operator.api.owned import (
    ENVIRONMENT_RULE,
    FLAGS_RULE,
    OWNED_ENVIRONMENT,
    OWNED_FLAGS,
    SHORT_FLAGS_RULE,
    is_owned_flag,
)


@pytest.mark.parametrize("flag", OWNED_FLAGS)
def test_a_flag_of_ours_is_owned(flag: str) -> None:
    assert is_owned_flag(flag)
    assert is_owned_flag(f"{flag}=1")


@pytest.mark.parametrize(
    "argument",
    [
        "--tensor_parallel_size",
        "--tensor_parallel_size=2",
        "--kv-transfer-config.kv_role",
        "--kv-transfer-config.kv_connector_extra_config.host_ip=1.2.3.4",
        # argparse takes the beginning of a long flag for the flag.
        "--tensor-parallel",
        "--por",
        "--kv-transfer",
        "--served-model",
        "--hos=198.18.0.1",
        "--shutdown_time",
        # Short forms are refused altogether: `-n2` looks like none of a list.
        "-tp",
        "-tp=2",
        "-pp",
        "-dp",
        "-n",
        "-n2",
        "-dpl",
        "-dpn",
        "-r",
        "-q",
        # What else would move the engine's sockets or spread it over pods.
        "--uds",
        "--nnodes",
        "--node-rank",
        "--headless",
        "--data-parallel-size-local",
        "--data-parallel-rank",
        "--data-parallel-external-lb",
        "--data-parallel-hybrid-lb",
        "--prefill-context-parallel-size",
        "--config",
        "--config=/models/x.yaml",
        "--enable-expert-parallel",
        "--decode-context-parallel-size=2",
        "--dcp-kv-cache-interleave-size",
        "--grpc",
        "--ssl-keyfile",
    ],
)
def test_other_spellings_are_owned_too(argument: str) -> None:
    assert is_owned_flag(argument)


@pytest.mark.parametrize(
    "argument",
    [
        "--max-model-len",
        "--max-model-len=4096",
        "--model-impl",
        "--hf-overrides.x",
        "--enforce-eager",
        "--gpu-memory-utilization",
        "--port-unknown",
        "--hosts",
        "--kv-cache-dtype",
        "--kv-events-config",
        "-1",
        "4096",
        "0.9",
        "--",
        "-",
        "",
        "host",
        "port=1",
    ],
)
def test_other_arguments_are_free(argument: str) -> None:
    assert not is_owned_flag(argument)


def test_the_rules_of_the_api_server_hold_the_same_lists() -> None:
    assert all(f"'{flag}'" in FLAGS_RULE["rule"] for flag in OWNED_FLAGS)
    assert all(f"'{name}'" in ENVIRONMENT_RULE["rule"] for name in OWNED_ENVIRONMENT)


def test_messages_name_what_is_owned() -> None:
    assert all(name in ENVIRONMENT_RULE["message"] for name in OWNED_ENVIRONMENT)
    assert "--kv-transfer-config" in FLAGS_RULE["message"]


def test_the_rule_of_short_flags_knows_them_from_values() -> None:
    pattern = re.search(r"matches\('(.*)'\)", SHORT_FLAGS_RULE["rule"])
    assert pattern is not None
    assert [a for a in ("-q", "-tp", "-n2", "-O3") if not re.match(pattern[1], a)] == []
    assert [a for a in ("-1", "-", "--", "--q", "q-x", "-.5") if re.match(pattern[1], a)] == []


def test_messages_fit_what_the_api_server_takes() -> None:
    assert len(FLAGS_RULE["message"]) <= 2048
    assert len(ENVIRONMENT_RULE["message"]) <= 2048

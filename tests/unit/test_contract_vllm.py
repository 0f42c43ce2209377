"""An engine's command line, environment and time to stop."""

from __future__ import annotations

import pytest
from moriio_operator.api.names import Role
from moriio_operator.api.owned import is_owned_flag
from moriio_operator.contract import router, vllm
from moriio_operator.contract.ports import placeholder

from unit.samples import FULL, MINIMAL, Json, spec


def arguments(base: Json = MINIMAL, role: Role = Role.PREFILL) -> list[str]:
    return vllm.arguments(spec({}, base), role)


def value(flag: str, given: list[str]) -> str:
    return given[given.index(flag) + 1]


def test_the_model_comes_first_and_the_users_arguments_last() -> None:
    assert arguments(FULL)[0] == "/models/big"
    assert arguments(FULL)[-2:] == ["--max-model-len", "4096"]


def test_what_the_operator_owns_is_written_out() -> None:
    given = arguments(FULL)
    assert value("--served-model-name", given) == "big"
    assert value("--host", given) == "0.0.0.0"
    assert value("--port", given) == placeholder("http")
    assert value("--tensor-parallel-size", given) == "2"
    assert value("--shutdown-timeout", given) == "90"
    assert f'"handshake_port":{placeholder("handshake")}' in value("--kv-transfer-config", given)


def test_every_flag_of_ours_is_refused_from_users() -> None:
    flags = [argument for argument in arguments() if argument.startswith("-")]
    assert flags
    assert all(is_owned_flag(flag) for flag in flags)


def test_visible_devices_are_named_for_both_runtimes_and_equal() -> None:
    given = vllm.environment(spec({}, FULL), Role.PREFILL)
    assert given["HIP_VISIBLE_DEVICES"] == given["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert "ROCR_VISIBLE_DEVICES" not in given


def test_without_visible_devices_the_engine_sees_what_it_is_given() -> None:
    given = vllm.environment(spec({"decode": {"devices": {"gpu": {}}}}), Role.DECODE)
    assert given == {"HF_HOME": "/models/huggingface"}


@pytest.mark.parametrize(
    ("mode", "role", "seconds"),
    [
        ("Read", Role.PREFILL, 10 + 60 + 30 + 60),
        ("Read", Role.DECODE, 10 + 60 + 30),
        ("Write", Role.PREFILL, 10 + 60 + 30),
        ("Write", Role.DECODE, 10 + 60 + 30),
    ],
)
def test_the_grace_period_is_the_sum_of_its_parts(mode: str, role: Role, seconds: int) -> None:
    assert vllm.grace_seconds(spec({"connector": {"mode": mode}}), role) == seconds


def test_an_engine_waits_longer_than_the_router_remembers_it() -> None:
    # The router forgets 4 to 5 s after the last beat, which itself comes some seconds late.
    assert vllm.leave_seconds() >= router.ENGINE_MEMORY_SECONDS + 3

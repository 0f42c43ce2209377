"""An engine's command line, environment and time to stop."""

from __future__ import annotations

import pytest
from moriio_operator.api.owned import is_owned_flag
from moriio_operator.api.ports import placeholder
from moriio_operator.facts import router
from moriio_operator.facts.terms import Role
from moriio_operator.facts.versions import KNOWN, Version
from moriio_operator.stack.vllm_moriio import command_line

from unit.samples import FULL, MINIMAL, Json, spec


def arguments(base: Json = MINIMAL, role: Role = Role.PREFILL) -> list[str]:
    return command_line.arguments(spec({}, base), role)


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
    given = command_line.environment(spec({}, FULL), Role.PREFILL)
    assert given["HIP_VISIBLE_DEVICES"] == given["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert "ROCR_VISIBLE_DEVICES" not in given


def test_without_visible_devices_the_engine_sees_what_it_is_given() -> None:
    given = command_line.environment(spec({"decode": {"devices": {"gpu": {}}}}), Role.DECODE)
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
    assert command_line.grace_seconds(spec({"connector": {"mode": mode}}), role) == seconds


def test_an_engine_waits_longer_than_the_router_remembers_it() -> None:
    # The router forgets 4 to 5 s after the last beat, which itself comes some seconds late.
    assert command_line.pre_stop_seconds() >= router.ENGINE_TTL_SECONDS + 3


def shaped(parallelism: Json, role: Role = Role.PREFILL) -> list[str]:
    return command_line.arguments(spec({role.value: {"parallelism": parallelism}}), role)


def test_data_parallel_and_expert_parallel_are_written_only_where_asked_for() -> None:
    assert "--data-parallel-size" not in arguments()
    assert "--enable-expert-parallel" not in arguments()
    assert value("--data-parallel-size", shaped({"dataLocal": 4})) == "4"
    assert "--enable-expert-parallel" in shaped({"expert": "Enabled"})


@pytest.mark.parametrize(
    ("version", "mode", "role", "off"),
    [
        (Version(0, 30), "Read", Role.DECODE, True),
        (Version(0, 20), "Read", Role.DECODE, True),
        (Version(0, 30), "Read", Role.PREFILL, False),
        (Version(0, 30), "Write", Role.DECODE, False),
        (Version(0, 31), "Read", Role.DECODE, False),
    ],
)
def test_prefix_caching_is_off_where_it_is_broken(
    version: Version, mode: str, role: Role, *, off: bool
) -> None:
    given = command_line.arguments(spec({"connector": {"mode": mode}}), role, version)
    assert ("--no-enable-prefix-caching" in given) is off


@pytest.mark.parametrize("version", KNOWN, ids=str)
def test_the_users_arguments_come_last_in_every_version(version: Version) -> None:
    given = command_line.arguments(spec({}, FULL), Role.PREFILL, version)
    assert given[-2:] == ["--max-model-len", "4096"]
    assert given[-3].startswith("{")


def test_an_old_version_takes_its_mode_from_the_environment() -> None:
    given = command_line.environment(spec(), Role.PREFILL, Version(0, 22, 1))
    assert given["VLLM_MORIIO_CONNECTOR_READ_MODE"] == "1"
    assert not any("MORIIO" in name for name in command_line.environment(spec(), Role.PREFILL))


def engine_container(env: object) -> Json:
    return {"spec": {"containers": [{"name": "engine", "env": env}, {"name": "log", "env": env}]}}


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({}, None),
        ({"env": [{"name": "A", "value": "1"}]}, "1"),
        ({"podTemplate": engine_container([{"name": "A", "value": "2"}])}, "2"),
        (
            {
                "env": [{"name": "A", "value": "1"}],
                "podTemplate": engine_container([{"name": "A", "value": "2"}]),
            },
            "2",
        ),
        ({"podTemplate": engine_container([{"name": "A", "valueFrom": {}}])}, ""),
        ({"podTemplate": engine_container([{"name": "B", "value": "2"}])}, None),
        ({"podTemplate": engine_container("A=1")}, None),
        ({"podTemplate": {"spec": []}}, None),
        ({"podTemplate": {"spec": {"containers": ["engine"]}}}, None),
    ],
)
def test_a_variable_is_found_where_users_set_it(change: Json, found: str | None) -> None:
    assert command_line.variable(spec({"decode": change}).decode, "A") == found

"""The router's command line states every address and holds what the spec says."""

from __future__ import annotations

import pytest
from moriio_operator.api.deployment import RouterPolicy
from moriio_operator.facts import router

from unit.samples import Json, spec


def flags(change: Json | None = None) -> dict[str, str]:
    given = spec({"router": change or {}}).router
    written = router.arguments(
        given.policy, given.request_timeout_seconds, router.discovery("moriio")
    )
    found = {}
    for flag, value in zip(written, [*written[1:], ""], strict=True):
        if flag.startswith("--"):
            found[flag] = "" if value.startswith("--") else value
    return found


def test_clients_reach_the_router_and_nobody_reaches_the_registration_socket() -> None:
    assert (flags()["--host"], flags()["--port"]) == ("0.0.0.0", "8000")
    assert flags()["--vllm-discovery-address"].startswith("127.0.0.1:")
    assert flags()["--prometheus-host"] == "0.0.0.0"


def test_it_speaks_moriio() -> None:
    assert "--vllm-pd-disaggregation" in flags()
    assert flags()["--kv-connector"] == "moriio"


def test_the_log_level_is_one_that_both_launchers_know() -> None:
    assert flags()["--log-level"] in ("debug", "info", "error")


@pytest.mark.parametrize(
    ("policy", "word"),
    [
        ("CacheAware", "cache_aware"),
        ("ConsistentHash", "consistent_hash"),
        ("PowerOfTwo", "power_of_two"),
        ("Random", "random"),
        ("RoundRobin", "round_robin"),
    ],
)
def test_policies_are_spelled_as_the_router_does(policy: str, word: str) -> None:
    assert flags({"policy": policy})["--policy"] == word


def test_every_policy_has_a_word() -> None:
    assert all(flags({"policy": policy.value})["--policy"] for policy in RouterPolicy)


def test_the_request_timeout_is_the_specs() -> None:
    assert flags({"requestTimeoutSeconds": 77})["--request-timeout-secs"] == "77"

"""vllm-router's command line, its ports, its memory of engines, and what its requests carry.

Sources: vllm-router 0.1.17, read and measured; for request ids also vLLM 0.20.0 to 0.33.0,
`moriio_common.get_peer_zmq_from_request_id` and `parse_moriio_zmq_address`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

HTTP_PORT = 8000
METRICS_PORT = 29_000
# Loopback only: whoever reaches the registration socket can register an engine, and so receive
# prompts. The registrar sits in the same pod.
REGISTRATION = "127.0.0.1:36367"

LIVENESS_PATH = "/liveness"
# 200 once at least one prefill and one decode are registered. `/readiness` looks at another
# registry and never becomes ready in discovery mode.
READINESS_PATH = "/health"

# The router forgets an engine 4 to 5 s after its last registration (whole wall-clock seconds, not
# configurable) and has no deregistration.
ENGINE_TTL_SECONDS = 5

# How its command line writes the policies of the custom resource.
POLICIES = {
    "CacheAware": "cache_aware",
    "ConsistentHash": "consistent_hash",
    "PowerOfTwo": "power_of_two",
    "Random": "random",
    "RoundRobin": "round_robin",
}


def arguments(policy: str, request_timeout_s: int, engines: Sequence[str]) -> list[str]:
    """Give the router's arguments; its defaults bind loopback, so every address is written.

    `engines` are those that say how it finds engines and speaks to them.
    """
    return [
        "--host", "0.0.0.0",  # noqa: S104 - clients come from other pods
        "--port", str(HTTP_PORT),
        *engines,
        "--prometheus-host", "0.0.0.0",  # noqa: S104 - scrapers come from other pods
        "--prometheus-port", str(METRICS_PORT),
        "--policy", POLICIES[policy],
        "--request-timeout-secs", str(request_timeout_s),
        "--log-level", "info",
    ]  # fmt: skip


def discovery(connector: str) -> list[str]:
    """Give the arguments by which the router takes prefill and decode engines as they register."""
    return [
        "--vllm-pd-disaggregation",
        "--kv-connector", connector,
        "--vllm-discovery-address", REGISTRATION,
    ]  # fmt: skip


_SUFFIX = re.compile(r"[0-9a-f]{32}")


def zmq_address(host: str, handshake: int, notify: int) -> str:
    """Give an engine's address as peers read it: the first ports of its ranks."""
    return f"host:{host},handshake:{handshake},notify:{notify}"


def request_id(prefill_zmq: str, decode_zmq: str, suffix: str) -> str:
    """Give the value of `X-Request-Id`, from which each side reads the address of the other.

    Raises:
        ValueError: the suffix is not 32 hexadecimal digits, which vLLM would not recognise.
    """
    if _SUFFIX.fullmatch(suffix) is None:
        raise ValueError(f"{suffix!r} is not 32 hexadecimal digits in lower case")
    return f"___prefill_addr_{prefill_zmq}___decode_addr_{decode_zmq}_{suffix}"

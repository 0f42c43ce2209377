"""The times after which vLLM's connector, vLLM itself and the router give something up.

A row without a field cannot be set. Before 0.23 vLLM waits without an end where the first two rows
stand: the time that it notes for a deferred send (3600 s) is read by nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from moriio_operator.facts.versions import OLDEST, Version


@dataclass(frozen=True, slots=True)
class Timeout:
    """One time, in seconds; `field` is the field of the resource that sets it, if any does."""

    name: str
    owner: str
    default_s: int
    field: str | None
    meaning: str
    source: str
    first: Version = OLDEST


TIMEOUTS: tuple[Timeout, ...] = (
    Timeout(
        "transfer_timeout", "vLLM", 30, "spec.connector.transferTimeoutSeconds",
        "how long a transfer, or the wait for a peer's handshake, may take",
        "MoRIIOConstants.DEFAULT_TRANSFER_TIMEOUT", Version(0, 23),
    ),
    Timeout(
        "defer_timeout", "vLLM", 60, "spec.connector.deferTimeoutSeconds",
        "how long prefill keeps KV blocks that decode has neither fetched nor requested",
        "MoRIIOConstants.DEFAULT_DEFER_TIMEOUT", Version(0, 23),
    ),
    Timeout(
        "recv_abort_timeout", "vLLM", 120, "spec.connector.receiveAbortTimeoutSeconds",
        "how long decode waits for the completion of a read",
        "MoRIIOConstants.DEFAULT_RECV_ABORT_TIMEOUT", Version(0, 31),
    ),
    Timeout(
        "PING_INTERVAL", "vLLM", 3, None,
        "interval of vLLM's own registrations, which the operator leaves off",
        "MoRIIOConstants.PING_INTERVAL",
    ),
    Timeout(
        "--shutdown-timeout", "vLLM", 0, "spec.rollout.drainTimeoutSeconds",
        "how long a terminating engine may take to finish its requests",
        "vllm/config/vllm.py, VllmConfig.shutdown_timeout",
    ),
    Timeout(
        "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS", "vLLM", 300, "spec.<role>.env",
        "how long one step of the model may take before the engine exits",
        "vllm/envs.py",
    ),
    Timeout(
        "VLLM_ENGINE_READY_TIMEOUT_S", "vLLM", 600, "spec.<role>.env",
        "how long the API server waits for its engine to start",
        "vllm/envs.py",
    ),
    Timeout(
        "engine memory", "vllm-router", 5, None,
        "how long the router keeps an engine after its last registration",
        "vllm-router 0.1.17, measured: 4 to 5 whole seconds",
    ),
    Timeout(
        "--request-timeout-secs", "vllm-router", 1800, "spec.router.requestTimeoutSeconds",
        "maximum duration of a request, including its whole stream",
        "vllm-router 0.1.17, --help",
    ),
)  # fmt: skip


def holding(version: Version) -> tuple[Timeout, ...]:
    """Give the times that hold for a version of vLLM."""
    return tuple(t for t in TIMEOUTS if t.first <= version)

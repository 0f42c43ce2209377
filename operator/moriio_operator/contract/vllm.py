"""vLLM's command line and environment as an engine pod uses them, and how an engine stops.

Source: vLLM 0.32.0 and 0.33.0, and the images vllm/vllm-openai-rocm, whose entry point is
`vllm serve`.
"""

from __future__ import annotations

from moriio_operator.api import names
from moriio_operator.api.deployment import Spec
from moriio_operator.api.engine import Mode
from moriio_operator.api.names import Role
from moriio_operator.contract import router
from moriio_operator.contract.connector import kv_transfer_config
from moriio_operator.contract.ports import HTTP, placeholder

HEALTH_PATH = "/health"

# From a pod's deletion to the registrar's last beat for it: the pod's status, its EndpointSlice
# (one an engine, as port numbers differ), the watch, and a beat.
ROUTER_NOTICE_SECONDS = 5
# After SIGTERM and its drain: closing HTTP, freeing GPU memory, ending the workers.
SHUTDOWN_MARGIN_SECONDS = 30


def arguments(spec: Spec, role: Role) -> list[str]:
    """Give the arguments of `vllm serve`, with placeholders for ports; the user's come last."""
    engine = spec.role(role)
    return [
        spec.model.name,
        "--served-model-name", spec.model.served_name,
        "--host", "0.0.0.0",  # noqa: S104 - the router and the kubelet come from outside the pod
        "--port", placeholder(HTTP),
        "--tensor-parallel-size", str(engine.parallelism.tensor),
        "--shutdown-timeout", str(spec.rollout.drain_timeout_seconds),
        "--kv-transfer-config", kv_transfer_config(spec.connector, role),
        *engine.args,
    ]  # fmt: skip


def environment(spec: Spec, role: Role) -> dict[str, str]:
    """Give the variables that hold for every engine of a role."""
    variables = {"HF_HOME": f"{names.CACHE_MOUNT}/huggingface"}
    gpu = spec.role(role).devices.gpu
    if gpu is not None and gpu.visible_devices is not None:
        # vLLM's ROCm platform wants both, and equal.
        variables["HIP_VISIBLE_DEVICES"] = gpu.visible_devices
        variables["CUDA_VISIBLE_DEVICES"] = gpu.visible_devices
    return variables


def leave_seconds() -> int:
    """How long a stopping engine waits before it is told, until no router sends it more."""
    return ROUTER_NOTICE_SECONDS + router.ENGINE_MEMORY_SECONDS


def grace_seconds(spec: Spec, role: Role) -> int:
    """How long a stopping engine may take in all (terminationGracePeriodSeconds).

    A prefill engine in Read mode does not count blocks that a decode still reads as its work, so
    it gets the time after which it would give them up.
    """
    grace = leave_seconds() + spec.rollout.drain_timeout_seconds + SHUTDOWN_MARGIN_SECONDS
    if role is Role.PREFILL and spec.connector.mode is Mode.READ:
        grace += spec.connector.defer_timeout_seconds
    return grace

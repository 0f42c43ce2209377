"""vLLM's command line and environment as an engine pod uses them, and how an engine stops.

Source: vLLM 0.20.0 to 0.33.0 (the flags stand in `flags`), and the images vllm/vllm-openai-rocm,
whose entry point is `vllm serve`.
"""

from __future__ import annotations

from moriio_operator.api import names
from moriio_operator.api.deployment import Spec
from moriio_operator.api.engine import EngineRole, Expert
from moriio_operator.api.ports import placeholder
from moriio_operator.facts import flags, models, router
from moriio_operator.facts.terms import Mode, Role
from moriio_operator.facts.versions import NEWEST, Version
from moriio_operator.stack.vllm_moriio import connector
from moriio_operator.stack.vllm_moriio.ports import HTTP

HEALTH_PATH = "/health"

# From a pod's deletion to the registrar's last beat for it: the pod's status, its EndpointSlice
# (one an engine, as port numbers differ), the watch, and a beat.
ROUTER_NOTICE_SECONDS = 5
# After SIGTERM and its drain: closing HTTP, freeing GPU memory, ending the workers.
SHUTDOWN_MARGIN_SECONDS = 30


def arguments(spec: Spec, role: Role, version: Version = NEWEST) -> list[str]:
    """Give the arguments of `vllm serve`, with placeholders for ports; the user's come last."""
    engine = spec.role(role)
    ours: dict[str, str | None] = {
        "--served-model-name": spec.model.served_name,
        "--host": "0.0.0.0",  # noqa: S104 - the router and the kubelet come from outside the pod
        "--port": placeholder(HTTP),
        "--tensor-parallel-size": str(engine.parallelism.tensor),
        **_spread(engine),
        "--shutdown-timeout": str(spec.rollout.drain_timeout_seconds),
    }
    if models.breaks_prefix_caching(version, spec.connector.mode, role):
        ours["--no-enable-prefix-caching"] = None
    config = connector.kv_transfer_config(spec.connector, role, version)
    ours["--kv-transfer-config"] = config
    made = [spec.model.name]
    for name, value in ours.items():
        if flags.has(name, version):
            made += [name] if value is None else [name, value]
    return [*made, *engine.args]


def _spread(engine: EngineRole) -> dict[str, str | None]:
    """Give what is written only for an engine that has it, so that others stay as they were."""
    spread: dict[str, str | None] = {}
    if engine.parallelism.data_local > 1:
        spread["--data-parallel-size"] = str(engine.parallelism.data_local)
    if engine.parallelism.expert is Expert.ENABLED:
        spread["--enable-expert-parallel"] = None
    return spread


def environment(spec: Spec, role: Role, version: Version = NEWEST) -> dict[str, str]:
    """Give the variables that hold for every engine of a role."""
    variables = {"HF_HOME": f"{names.CACHE_MOUNT}/huggingface"}
    variables.update(connector.variables(spec.connector, version))
    gpu = spec.role(role).devices.gpu
    if gpu is not None and gpu.visible_devices is not None:
        # vLLM's ROCm platform wants both, and equal.
        variables["HIP_VISIBLE_DEVICES"] = gpu.visible_devices
        variables["CUDA_VISIBLE_DEVICES"] = gpu.visible_devices
    return variables


def variable(engine: EngineRole, name: str) -> str | None:
    """Give a variable's plain value as a user set it for a role; its pod template comes last."""
    found = next((v.value for v in engine.env if v.name == name), None)
    for container in _objects(engine.template_spec.get("containers")):
        if container.get("name") == names.CONTAINER_ENGINE:
            for entry in _objects(container.get("env")):
                if entry.get("name") == name:
                    value = entry.get("value")
                    found = value if isinstance(value, str) else ""
    return found


def _objects(value: object) -> list[dict[str, object]]:
    # A pod template has any shape until it is checked.
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def pre_stop_seconds() -> int:
    """How long a stopping engine waits before SIGTERM, until no router sends it more."""
    return ROUTER_NOTICE_SECONDS + router.ENGINE_TTL_SECONDS


def grace_seconds(spec: Spec, role: Role) -> int:
    """How long a stopping engine may take in all (terminationGracePeriodSeconds).

    A prefill engine in Read mode does not count blocks that a decode still reads as its work, so
    it gets the time after which it would give them up.
    """
    grace = pre_stop_seconds() + spec.rollout.drain_timeout_seconds + SHUTDOWN_MARGIN_SECONDS
    if role is Role.PREFILL and spec.connector.mode is Mode.READ:
        grace += spec.connector.defer_timeout_seconds
    return grace

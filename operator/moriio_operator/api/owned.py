"""Flags and environment variables that the operator sets on an engine, and a user may not.

A second value would not override the operator's: prefill, decode, Service and registrar would
disagree, and vLLM then hangs instead of reporting an error.
"""

from __future__ import annotations

from collections.abc import Iterable

from moriio_operator.api.schema import JsonSchema, rule

# Flags, and what to do instead. vLLM's parser accepts `_` for `-`, `--flag=value`,
# `--flag.key value`, and any unambiguous prefix of a flag: the rule covers each.
OWNED_FLAGS = {
    # The engine would refuse the router and the probes, and the status would not say why.
    "--api-key": "use spec.engine.apiKeySecretKeyRef",
    # A file of arguments, which may contain any of the others.
    "--config": "write its arguments into args",
    "--data-parallel-external-lb": "use parallelism.dataLocal; an engine is one pod",
    "--data-parallel-hybrid-lb": "use parallelism.dataLocal; an engine is one pod",
    "--data-parallel-multi-port-external-lb": "use parallelism.dataLocal; an engine is one pod",
    "--data-parallel-rank": "use parallelism.dataLocal; an engine is one pod",
    "--data-parallel-size": "use parallelism.dataLocal",
    "--data-parallel-size-local": "use parallelism.dataLocal",
    "--data-parallel-start-rank": "use parallelism.dataLocal; an engine is one pod",
    "--enable-expert-parallel": "use parallelism.expert",
    "--cp-kv-cache-interleave-size": "remove it; MoRIIO knows no context ranks",
    "--dcp-kv-cache-interleave-size": "remove it; MoRIIO knows no context ranks",
    "--decode-context-parallel-size": "use parallelism.tensor; MoRIIO knows no context ranks",
    "--grpc": "remove it; routers and probes speak HTTP",
    "--headless": "remove it; an engine is one pod and has the API server",
    "--host": "remove it; routers and probes come from outside of the pod",
    # Replaces the connector: healthy engines that carry no KV cache.
    "--kv-offloading-backend": "remove it; it would replace the connector",
    "--kv-offloading-size": "remove it; it would replace the connector",
    "--kv-transfer-config": "use spec.connector",
    "--model": "use spec.model.name",
    "--nnodes": "use parallelism.tensor; an engine is one pod",
    "--node-rank": "use parallelism.tensor; an engine is one pod",
    "--pipeline-parallel-size": "use parallelism.tensor; MoRIIO knows no pipeline ranks",
    "--port": "use spec.network.portRange",
    "--prefill-context-parallel-size": "use parallelism.tensor; MoRIIO knows no context ranks",
    "--served-model-name": "use spec.model.servedName",
    "--shutdown-timeout": "use spec.rollout.drainTimeoutSeconds",
    # Router and probes speak plain HTTP.
    "--ssl-certfile": "remove it; routers and probes speak plain HTTP",
    "--ssl-keyfile": "remove it; routers and probes speak plain HTTP",
    "--tensor-parallel-size": "use parallelism.tensor",
    # A Unix socket instead of the port.
    "--uds": "remove it; routers and probes come from outside of the pod",
}

OWNED_ENVIRONMENT = (
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "POD_IP",
    # Together with HIP_VISIBLE_DEVICES it filters twice, and devices are silently lost.
    "ROCR_VISIBLE_DEVICES",
    "VLLM_API_KEY",
    "VLLM_HOST_IP",
    # A base for vLLM's random ports; several workers race for the same one.
    "VLLM_PORT",
)


def is_owned_flag(argument: str) -> bool:
    """Return whether a command-line argument sets what the operator sets."""
    name = argument.replace("_", "-").split("=", 1)[0].split(".", 1)[0]
    if name.startswith("--"):
        return len(name) > len("--") and any(flag.startswith(name) for flag in OWNED_FLAGS)
    # Short forms are never accepted: a rule cannot distinguish `-n2` and `-tp` from values.
    return len(name) > 1 and name[0] == "-" and name[1].isalpha()


def _cel_list(items: Iterable[str]) -> str:
    return "[" + ", ".join(f"'{item}'" for item in items) + "]"


_NAMES = "self.map(a, a.replace('_', '-').split('=')[0].split('.')[0])"
_OWNED = (
    f"n.startsWith('--') && n.size() > 2 && {_cel_list(OWNED_FLAGS)}.exists(f, f.startsWith(n))"
)
_REMEDIES = "{" + ", ".join(f"'{flag}': '{text}'" for flag, text in OWNED_FLAGS.items()) + "}"
FLAGS_RULE: JsonSchema = {
    **rule(
        f"{_NAMES}.all(n, !({_OWNED}))",
        "args must not hold a flag that the operator sets ("
        + ", ".join(OWNED_FLAGS)
        + "): remove it; use the fields for ports, parallelism, model and connector",
    ),
    # The first such flag, and what to use instead.
    "messageExpression": f"{_NAMES}.filter(n, {_OWNED})"
    f".map(n, {_cel_list(OWNED_FLAGS)}.filter(f, f.startsWith(n))[0])"
    ".map(f, 'args must not hold ' + f + ', which the operator sets: ' + "
    f"{_REMEDIES}[f])[0]",
}

SHORT_FLAGS_RULE: JsonSchema = rule(
    "self.all(a, !a.matches('^-[A-Za-z]'))",
    "args must use the long forms of flags, such as --quantization for -q: write them out",
)

ENVIRONMENT_RULE: JsonSchema = rule(
    "self.all(e, !(e.name in "
    + _cel_list(OWNED_ENVIRONMENT)
    + ") && !e.name.startsWith('VLLM_MORIIO_'))",
    "env must not hold a variable that the operator sets ("
    + ", ".join(OWNED_ENVIRONMENT)
    + ", VLLM_MORIIO_*, which vLLM ignores since 0.23): remove it; use the fields for devices and "
    "connector",
)

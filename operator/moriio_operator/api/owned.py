"""What the operator sets itself on an engine, and a user therefore may not: flags and variables.

A second value would not override ours, it would make prefill, decode, Service and registrar
disagree, and vLLM answers such disagreement with a hang rather than an error.
"""

from __future__ import annotations

from moriio_operator.api.schema import JsonSchema, rule

# vLLM's parser takes `_` for `-`, `--flag=value`, `--flag.key value`, and any unambiguous beginning
# of a flag: the rule covers each.
OWNED_FLAGS = (
    # A file of arguments, which may hold any of the others.
    "--config",
    # The router and the probes would be refused without a word in the status.
    "--api-key",
    "--data-parallel-external-lb",
    "--data-parallel-hybrid-lb",
    "--data-parallel-multi-port-external-lb",
    "--data-parallel-rank",
    "--data-parallel-size",
    "--data-parallel-size-local",
    "--data-parallel-start-rank",
    "--headless",
    "--host",
    # Replaces the connector: healthy engines that carry no KV cache.
    "--kv-offloading-backend",
    "--kv-offloading-size",
    "--kv-transfer-config",
    "--model",
    "--nnodes",
    "--node-rank",
    "--pipeline-parallel-size",
    "--port",
    "--prefill-context-parallel-size",
    "--served-model-name",
    "--shutdown-timeout",
    # Router and probes speak plain HTTP.
    "--ssl-certfile",
    "--ssl-keyfile",
    "--tensor-parallel-size",
    # A Unix socket in place of the port.
    "--uds",
)

OWNED_ENVIRONMENT = (
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "POD_IP",
    # Set beside HIP_VISIBLE_DEVICES it filters twice, and devices are lost without a word.
    "ROCR_VISIBLE_DEVICES",
    "VLLM_API_KEY",
    "VLLM_HOST_IP",
    # A base for vLLM's random ports; several workers race for the same one.
    "VLLM_PORT",
)


def is_owned_flag(argument: str) -> bool:
    """Tell whether a command-line argument sets what the operator sets."""
    name = argument.replace("_", "-").split("=", 1)[0].split(".", 1)[0]
    if name.startswith("--"):
        return len(name) > len("--") and any(flag.startswith(name) for flag in OWNED_FLAGS)
    # Short forms are not taken at all: `-n2` and `-tp` cannot be told apart from values by a rule.
    return len(name) > 1 and name[0] == "-" and name[1].isalpha()


def _cel_list(items: tuple[str, ...]) -> str:
    return "[" + ", ".join(f"'{item}'" for item in items) + "]"


FLAGS_RULE: JsonSchema = rule(
    "self.map(a, a.replace('_', '-').split('=')[0].split('.')[0]).all(n, "
    "!n.startsWith('--') || n.size() == 2 || !"
    + _cel_list(OWNED_FLAGS)
    + ".exists(f, f.startsWith(n)))",
    "args must not hold a flag that the operator sets ("
    + ", ".join(OWNED_FLAGS)
    + "): remove it; ports, parallelism, model and connector have fields of their own",
)

SHORT_FLAGS_RULE: JsonSchema = rule(
    "self.all(a, !a.matches('^-[A-Za-z]'))",
    "args must hold the long forms of flags, such as --quantization for -q: write it out",
)

ENVIRONMENT_RULE: JsonSchema = rule(
    "self.all(e, !(e.name in "
    + _cel_list(OWNED_ENVIRONMENT)
    + ") && !e.name.startsWith('VLLM_MORIIO_'))",
    "env must not hold a variable that the operator sets ("
    + ", ".join(OWNED_ENVIRONMENT)
    + ", VLLM_MORIIO_*): remove it; devices and connector have fields of their own",
)

"""The `--kv-transfer-config` of vLLM's MoRIIOConnector, every key that a version knows written out.

Source: vLLM 0.20.0 to 0.33.0, `moriio_common.MoRIIOConfig.from_vllm_config`; the keys stand in
`keys`. Unknown keys are ignored there without a word, and a wrong type shows only when an engine
starts, so nothing is left to a user. `proxy_ip` is left out, or empty where it is demanded, on
purpose: without it vLLM sends no heartbeat, and the registrar registers engines instead.
"""

from __future__ import annotations

import json

from moriio_operator.api.engine import Connector
from moriio_operator.api.ports import placeholder
from moriio_operator.facts import keys
from moriio_operator.facts.terms import Backend, Mode, Role
from moriio_operator.facts.versions import NEWEST, Version
from moriio_operator.stack.vllm_moriio.ports import HANDSHAKE, HTTP, NOTIFY

# The variable that an engine container takes its own address from (downward API).
POD_IP = "POD_IP"

_KV_ROLES = {Role.PREFILL: "kv_producer", Role.DECODE: "kv_consumer"}
_BACKENDS = {Backend.RDMA: "rdma", Backend.XGMI: "xgmi"}


def kv_transfer_config(connector: Connector, role: Role, version: Version = NEWEST) -> str:
    """Give the JSON value of `--kv-transfer-config`, with placeholders for the port numbers.

    `host_ip` must be an IPv4 literal of the pod (MORI binds exactly it); the kubelet expands the
    variable when the container starts.
    """
    values = _values(connector)
    config = {
        "kv_connector": "MoRIIOConnector",
        "kv_role": _KV_ROLES[role],
        # A failed transfer fails its request: `recompute` would hide a broken KV path.
        "kv_load_failure_policy": "fail",
        "kv_connector_extra_config": {name: values[name] for name in keys.written(version)},
    }
    text = json.dumps(config, separators=(",", ":"))
    for name in (HTTP, HANDSHAKE, NOTIFY):
        # They become numbers, which JSON writes without quotes.
        text = text.replace(json.dumps(placeholder(name)), placeholder(name))
    return text


def variables(connector: Connector, version: Version = NEWEST) -> dict[str, str]:
    """Give the environment that stands for keys which a version does not know yet."""
    values = _values(connector)
    # A truth value as a number: `true` and `1` are what envs.py takes for true.
    return {v.name: str(int(values[v.key])) for v in keys.variables(version)}


def _values(connector: Connector) -> dict[str, str | int]:
    return {
        "proxy_ip": "",
        "proxy_ping_port": 0,
        "host_ip": f"$({POD_IP})",
        "http_port": placeholder(HTTP),
        "handshake_port": placeholder(HANDSHAKE),
        "notify_port": placeholder(NOTIFY),
        "read_mode": connector.mode is Mode.READ,
        "backend": _BACKENDS[connector.backend],
        "qp_per_transfer": connector.qp_per_transfer,
        "post_batch_size": connector.post_batch_size,
        "num_workers": connector.workers,
        "transfer_timeout": connector.transfer_timeout_seconds,
        "defer_timeout": connector.defer_timeout_seconds,
        "recv_abort_timeout": connector.receive_abort_timeout_seconds,
    }

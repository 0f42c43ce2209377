"""The `--kv-transfer-config` of vLLM's MoRIIOConnector, every key written out.

Source: vLLM 0.33.0, `moriio_common.MoRIIOConfig.from_vllm_config`. Unknown keys are ignored there
without a word, and a wrong type shows only when an engine starts, so nothing is left to a user.
`proxy_ip` is left out on purpose: without it vLLM sends no heartbeat (0.28 and newer), and the
registrar registers engines instead.
"""

from __future__ import annotations

import json

from moriio_operator.api.engine import Connector, Mode
from moriio_operator.api.names import Role
from moriio_operator.contract.ports import HANDSHAKE, HTTP, NOTIFY, placeholder

# The variable that an engine container takes its own address from (downward API).
POD_IP = "POD_IP"

_KV_ROLES = {Role.PREFILL: "kv_producer", Role.DECODE: "kv_consumer"}


def kv_transfer_config(connector: Connector, role: Role) -> str:
    """Give the JSON value of `--kv-transfer-config`, with placeholders for the port numbers.

    `host_ip` must be an IPv4 literal of the pod (MORI binds exactly it); the kubelet expands the
    variable when the container starts.
    """
    extra = {
        "host_ip": f"$({POD_IP})",
        "http_port": placeholder(HTTP),
        "handshake_port": placeholder(HANDSHAKE),
        "notify_port": placeholder(NOTIFY),
        "read_mode": connector.mode is Mode.READ,
        "backend": "rdma",
        "qp_per_transfer": connector.qp_per_transfer,
        "post_batch_size": connector.post_batch_size,
        "num_workers": connector.workers,
        "transfer_timeout": connector.transfer_timeout_seconds,
        "defer_timeout": connector.defer_timeout_seconds,
        "recv_abort_timeout": connector.receive_abort_timeout_seconds,
    }
    config = {
        "kv_connector": "MoRIIOConnector",
        "kv_role": _KV_ROLES[role],
        # A failed transfer fails its request: `recompute` would hide a broken KV path.
        "kv_load_failure_policy": "fail",
        "kv_connector_extra_config": extra,
    }
    text = json.dumps(config, separators=(",", ":"))
    for name in (HTTP, HANDSHAKE, NOTIFY):
        # They become numbers, which JSON writes without quotes.
        text = text.replace(json.dumps(placeholder(name)), placeholder(name))
    return text

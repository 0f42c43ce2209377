"""The keys of `kv_connector_extra_config`, and the variables that some of them were before.

vLLM ignores a key that it does not know, and some of those that it knows it demands: a row tells
from which version a key is read, since when it may be left out, and where its value comes from.

Sources: `moriio_common.MoRIIOConfig.from_vllm_config` and `MoRIIOConnector._set_port_defaults` of
every version in `versions.KNOWN`.
"""

from __future__ import annotations

from dataclasses import dataclass

from moriio_operator.facts.versions import NEWEST, OLDEST, Version

# The first version that reads keys in place of variables.
_KEYS_CAME = Version(0, 23)


@dataclass(frozen=True, slots=True)
class ConnectorKey:
    """One key of the connector's configuration.

    `default` is what vLLM takes when the key is missing, `comes_from` where our value comes from.
    """

    name: str
    first: Version
    default: str
    comes_from: str
    source: str
    # Before this version a missing key is a KeyError at start; None: it still is.
    optional_since: Version | None = OLDEST
    # We write it only while it is demanded: its presence would change what vLLM does, or nothing.
    only_if_demanded: bool = False

    def written(self, version: Version) -> bool:
        """Return whether we write the key for a version."""
        if version < self.first:
            return False
        return not self.only_if_demanded or self.demanded(version)

    def demanded(self, version: Version) -> bool:
        """Return whether a version refuses to start without the key."""
        return self.optional_since is None or version < self.optional_since


@dataclass(frozen=True, slots=True)
class Variable:
    """An environment variable that stood for a key until the key came."""

    name: str
    key: str
    default: str
    source: str
    first: Version = OLDEST
    # The first version that ignores it, with a warning.
    ignored_since: Version = _KEYS_CAME


KEYS: tuple[ConnectorKey, ...] = (
    ConnectorKey(
        "proxy_ip", OLDEST, "", "empty: the registrar registers engines, not they themselves",
        "MoRIIOConfig.from_vllm_config; MoRIIOConnectorWorker starts its heartbeat only if it is "
        "not empty (0.20.0 to 0.33.0)",
        optional_since=Version(0, 28), only_if_demanded=True,
    ),
    ConnectorKey(
        "proxy_ping_port", OLDEST, "0", "0: ignored without proxy_ip",
        "MoRIIOConfig.from_vllm_config",
        optional_since=Version(0, 28), only_if_demanded=True,
    ),
    ConnectorKey(
        "host_ip", Version(0, 24), "VLLM_HOST_IP, else the address of the default route",
        "the pod's address", "moriio_common.resolve_host_ip (0.24.0); vllm.utils.get_ip before",
    ),
    ConnectorKey(
        "http_port", OLDEST, "", "the engine's port block",
        "MoRIIOConfig.from_vllm_config", optional_since=None,
    ),
    ConnectorKey(
        "handshake_port", OLDEST, "6301", "the engine's port block",
        "MoRIIOConnector._set_port_defaults",
    ),
    ConnectorKey(
        "notify_port", OLDEST, "61005", "the engine's port block",
        "MoRIIOConnector._set_port_defaults",
    ),
    ConnectorKey(
        "read_mode", Version(0, 23), "false", "spec.connector.mode",
        "moriio_common.get_moriio_mode (0.23.0)",
    ),
    ConnectorKey(
        "backend", Version(0, 22), "rdma", "spec.connector.backend",
        "MoRIIOConfig.from_vllm_config (0.22.0)",
    ),
    ConnectorKey(
        "qp_per_transfer", Version(0, 23), "1", "spec.connector.qpPerTransfer",
        "MoRIIOConfig.from_vllm_config (0.23.0)",
    ),
    ConnectorKey(
        "post_batch_size", Version(0, 23), "-1", "spec.connector.postBatchSize",
        "MoRIIOConfig.from_vllm_config (0.23.0)",
    ),
    ConnectorKey(
        "num_workers", Version(0, 23), "1", "spec.connector.workers",
        "MoRIIOConfig.from_vllm_config (0.23.0)",
    ),
    ConnectorKey(
        "transfer_timeout", Version(0, 23), "30", "spec.connector.transferTimeoutSeconds",
        "MoRIIOConstants.DEFAULT_TRANSFER_TIMEOUT (0.23.0)",
    ),
    ConnectorKey(
        "defer_timeout", Version(0, 23), "60", "spec.connector.deferTimeoutSeconds",
        "MoRIIOConstants.DEFAULT_DEFER_TIMEOUT (0.23.0)",
    ),
    ConnectorKey(
        "recv_abort_timeout", Version(0, 31), "120",
        "spec.connector.receiveAbortTimeoutSeconds",
        "MoRIIOConstants.DEFAULT_RECV_ABORT_TIMEOUT (0.31.0)",
    ),
)  # fmt: skip

VARIABLES: tuple[Variable, ...] = (
    Variable(
        "VLLM_MORIIO_CONNECTOR_READ_MODE", "read_mode", "False", "vllm/envs.py (0.20.0 to 0.22.1)"
    ),
    Variable(
        "VLLM_MORIIO_QP_PER_TRANSFER", "qp_per_transfer", "1", "vllm/envs.py (0.20.0 to 0.22.1)"
    ),
    Variable(
        "VLLM_MORIIO_POST_BATCH_SIZE", "post_batch_size", "-1", "vllm/envs.py (0.20.0 to 0.22.1)"
    ),
    Variable("VLLM_MORIIO_NUM_WORKERS", "num_workers", "1", "vllm/envs.py (0.20.0 to 0.22.1)"),
)

_FIRST = {key.name: key.first for key in KEYS}


def written(version: Version = NEWEST) -> tuple[str, ...]:
    """Name the keys that we write for a version, in the order in which they stand."""
    return tuple(key.name for key in KEYS if key.written(version))


def variables(version: Version = NEWEST) -> tuple[Variable, ...]:
    """Give the variables that a version reads in place of keys."""
    return tuple(v for v in VARIABLES if v.first <= version < v.ignored_since)


def first(name: str) -> Version:
    """Give the first version that reads a key."""
    return _FIRST[name]

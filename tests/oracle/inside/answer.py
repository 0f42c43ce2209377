"""Run as a program: answers questions about one release of vLLM by running its own code.

    python -I answer.py TREE < questions.json > answers.json

A question is a name of a function below and its arguments; an answer is what vLLM's code gave, or
the exception that it raised. Nothing here knows what would be right.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from stubs import CONNECTOR, install  # type: ignore[import-not-found]

Json = dict[str, Any]

# What vLLM finds free on its host.
OPEN_PORT = 65_535


class Recording(dict[str, Any]):
    """A dict that knows which of its keys were asked for."""

    def __init__(self, content: Json) -> None:
        super().__init__(content)
        self.asked: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.asked.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.asked.add(str(key))
        return super().__contains__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.add(key)
        return super().get(key, default)


def _common() -> ModuleType:
    return import_module(f"{CONNECTOR}.moriio_common")


def _connector() -> ModuleType:
    return import_module(f"{CONNECTOR}.moriio_connector")


@contextlib.contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _vllm_config(extra: Json, ranks: dict[str, int]) -> SimpleNamespace:
    """What the connector looks at of a configuration, for one rank."""
    surroundings = {
        "get_tensor_model_parallel_rank": lambda: ranks["tensor_rank"],
        "get_tensor_model_parallel_world_size": lambda: ranks["tensor"],
        "get_open_port": lambda: OPEN_PORT,
    }
    vars(_common()).update(surroundings)
    return SimpleNamespace(
        kv_transfer_config=SimpleNamespace(kv_connector_extra_config=extra),
        parallel_config=SimpleNamespace(
            data_parallel_rank=ranks["data_rank"],
            data_parallel_size=ranks["data"],
            data_parallel_size_local=ranks["data"],
            tensor_parallel_size=ranks["tensor"],
        ),
    )


def _mode(vllm_config: SimpleNamespace) -> str:
    get = _common().get_moriio_mode
    takes_config = bool(inspect.signature(get).parameters)
    mode = get(vllm_config.kv_transfer_config) if takes_config else get()
    return str(mode.value)


def config(extra: Json, ranks: dict[str, int], environment: dict[str, str]) -> Json:
    """Read a kv_connector_extra_config as a worker of one rank does."""
    recording = Recording(extra)
    with _environment(environment):
        vllm_config = _vllm_config(recording, ranks)
        # Looked up so, since a name that is gone would be found blank in the connector's base.
        vars(_connector().MoRIIOConnector)["_set_port_defaults"](None, vllm_config)
        made = _common().MoRIIOConfig.from_vllm_config(vllm_config)
        return {"fields": vars(made), "mode": _mode(vllm_config), "asked": sorted(recording.asked)}


def variables(names: list[str], environment: dict[str, str]) -> Json:
    """Give what vLLM makes of environment variables that it declares; others are left out."""
    envs = import_module("vllm.envs")
    with _environment(environment):
        return {
            name: envs.environment_variables[name]()
            for name in names
            if name in envs.environment_variables
        }


def constants(names: list[str]) -> Json:
    """Give constants of the connector; those that it does not have are left out."""
    found = vars(_common().MoRIIOConstants)
    return {name: found[name] for name in names if name in found}


def port_offset(data_rank: int, tensor_rank: int, tensor: int | None) -> int:
    """Give the offset of a rank's port: as bound without `tensor`, as dialled with it."""
    get = _common().get_port_offset
    offset = get(data_rank, tensor_rank, *([] if tensor is None else [tensor]))
    return int(offset)


def local_rank(data_rank: int, data_local: int) -> int:
    """Give the rank within its pod that ports are counted by."""
    fold = vars(_common()).get("fold_local_rank")
    return data_rank if fold is None else int(fold(data_rank, data_local))


def peer(request_id: str, *, prefill: bool) -> list[Any]:
    """Find the other side's host and ports in a request's id, as prefill or as decode."""
    common = _common()
    address = common.get_peer_zmq_from_request_id(request_id, is_producer=prefill)
    return list(common.parse_moriio_zmq_address(address))


def read_topology(prefill: int, decode: int, kv_heads: int, *, latent: bool) -> None:
    """Map every decode rank to the prefill rank that it reads, as far as vLLM allows it."""
    connector = _connector()
    if "get_moriio_remote_tp_rank" not in vars(connector):
        _same_rank_only(prefill, decode)
        return
    for rank in range(decode):
        connector.get_moriio_remote_tp_rank(rank, decode, prefill)
    connector.get_moriio_expected_ack_count(prefill, decode)
    connector.validate_moriio_heterogeneous_tp_kv_heads(decode, prefill, kv_heads, latent)


def write_topology(prefill: int, decode: int, kv_heads: int, *, latent: bool) -> None:
    """Map every prefill rank to the decode ranks that it writes, as far as vLLM allows it."""
    try:
        mapping = import_module(f"{CONNECTOR}.moriio_tp_mapping")
    except ModuleNotFoundError:
        _same_rank_only(prefill, decode)
        return
    for rank in range(prefill):
        mapping.compute_write_tp_mapping(rank, prefill, decode, kv_heads, latent, has_mamba=False)


def _same_rank_only(prefill: int, decode: int) -> None:
    """Say what a release without a mapping can do: each rank talks to the peer of its own rank."""
    if prefill != decode:
        raise NotImplementedError("no mapping from rank to rank in this release")


class _FullAttention:
    """Stands for a layer of full attention where the connector does not name its class."""


class _State:
    """Stands for a layer that keeps a state where the connector does not name its class."""


def _cache_group(layer: str, *, hybrid: bool) -> SimpleNamespace:
    """Make what the connector looks at of a group of layers of one kind."""
    found = vars(_connector())
    full = found.get("FullAttentionSpec", _FullAttention)
    # Without the hybrid cache manager vLLM treats a window as full attention.
    windowed = found["SlidingWindowSpec"] if hybrid else full
    kinds = {"FullAttention": full, "SlidingWindow": windowed}
    spec = kinds.get(layer, found.get("MambaSpec", _State))()
    sizes = {"block_size": 16, "sliding_window": 1024, "dcp_sharded": False}
    # Two states, a convolution's and a recurrent one; of what size does not matter here.
    state = {"shapes": (1, 1), "dtypes": (1, 1), "num_speculative_blocks": 0}
    vars(spec).update(sizes | state)
    return SimpleNamespace(kv_cache_spec=spec, layer_names=[layer], enable_kv_transfer=True)


def layers(kinds: list[str], method: str | None, *, read: bool, hybrid: bool) -> None:
    """Let the connector's scheduler look at a model's layers, as it does at start."""
    connector = _connector()
    bases = {base.__name__ for base in connector.MoRIIOConnector.__bases__}
    state = set(kinds) - {"FullAttention", "SlidingWindow"}
    if "SupportsHMA" not in bases:
        if state:
            raise NotImplementedError("vLLM turns its hybrid cache manager off for the connector")
        return
    groups = [_cache_group(kind, hybrid=hybrid) for kind in kinds]
    full = vars(connector).get("FullAttentionSpec", _FullAttention)
    surroundings = {
        "cdiv": lambda number, by: -(-number // by),
        "is_full_attention_spec": lambda spec: isinstance(spec, full),
    }
    vars(connector).update(surroundings)
    extra = {"http_port": 1, "handshake_port": 2, "notify_port": 3, "read_mode": read}
    config = _vllm_config(extra, {"tensor": 1, "tensor_rank": 0, "data": 1, "data_rank": 0})
    config.kv_transfer_config.kv_role = "kv_producer"
    config.cache_config = SimpleNamespace(block_size=16, mamba_cache_mode="none")
    config.scheduler_config = SimpleNamespace(disable_hybrid_kv_cache_manager=not hybrid)
    config.num_lookahead_tokens = config.num_speculative_tokens = 0
    config.speculative_config = method and SimpleNamespace(
        method=method, use_dspark=lambda: method == "dspark"
    )
    cache = SimpleNamespace(kv_cache_groups=groups, transfer_groups=tuple(groups))
    connector.MoRIIOConnectorScheduler(config, "engine", cache)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    made.__name__: made
    for made in (
        config,
        constants,
        layers,
        local_rank,
        peer,
        port_offset,
        read_topology,
        variables,
        write_topology,
    )
}


def _answer(name: str, arguments: Json) -> Json:
    try:
        return {"value": _FUNCTIONS[name](**arguments)}
    except Exception as error:  # noqa: BLE001 - what vLLM raises is the answer
        return {"raised": f"{type(error).__name__}: {error}"}


def main() -> None:
    """Answer what stands on stdin."""
    install(Path(sys.argv[1]))
    _common()
    _connector()
    answers = [_answer(name, arguments) for name, arguments in json.load(sys.stdin)]
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()

"""Flags of `vllm serve`: those that we render, and how a user's arguments are read.

vLLM's parser takes `_` for `-`, `--flag=value`, `--flag value`, `--flag.key value` for flags that
hold JSON, any unambiguous beginning of a flag, and of several the last.

Sources: `vllm/engine/arg_utils.py` and `cli_args.py` (`vllm/entrypoints/openai` up to 0.28,
`launchers` up to 0.32, `common` in 0.33) of every version in `versions.KNOWN`, and
`FlexibleArgumentParser`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from moriio_operator.facts.versions import NEWEST, OLDEST, Version


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag that we render, from its first version on."""

    name: str
    comes_from: str
    source: str
    first: Version = OLDEST


@dataclass(frozen=True, slots=True)
class Refused:
    """A flag that vLLM refuses beside any KV connector, from a version on."""

    name: str
    first: Version
    why: str
    source: str


@dataclass(frozen=True, slots=True)
class Agreed:
    """A flag that prefill and decode must give alike; vLLM itself does not compare it."""

    name: str
    why: str
    source: str
    # What vLLM takes for "not given".
    default: str = ""
    # It matters only to models whose layers keep a state of fixed size.
    state_only: bool = False


_ENGINE = "EngineArgs.add_cli_args"
RENDERED: tuple[Flag, ...] = (
    Flag("--served-model-name", "spec.model.servedName", _ENGINE),
    Flag("--host", "every address of the pod", "FrontendArgs (cli_args.py)"),
    Flag("--port", "the engine's port block", "FrontendArgs (cli_args.py)"),
    Flag("--tensor-parallel-size", "spec.<role>.parallelism.tensor", _ENGINE),
    Flag("--data-parallel-size", "spec.<role>.parallelism.dataLocal, if above 1", _ENGINE),
    Flag("--enable-expert-parallel", "spec.<role>.parallelism.expert", _ENGINE),
    Flag("--shutdown-timeout", "spec.rollout.drainTimeoutSeconds", _ENGINE),
    Flag("--no-enable-prefix-caching", "decode, where its prefix caching is broken", _ENGINE),
    Flag("--kv-transfer-config", "spec.connector", _ENGINE),
)

REFUSED: tuple[Refused, ...] = (
    Refused(
        "--enable-sleep-mode", Version(0, 33),
        "a sleeping engine gives up memory that its peers still write to",
        "VllmConfig._verify_kv_transfer_compat, MoRIIOConnector.supports_sleep_mode (0.33.0)",
    ),
    Refused(
        "--enable-return-routed-experts", Version(0, 22),
        "what prefill routed does not come to decode",
        "VllmConfig.__post_init__ (0.22.0), _validate_return_routed_experts (0.31.0)",
    ),
    Refused(
        "--use-replayssm", Version(0, 27),
        "the connector does not carry its buffers",
        "vllm/config/vllm.py, validation of use_replayssm (0.27.0)",
    ),
)  # fmt: skip

# Other spellings of the same value (vllm.config.model, `_STR_DTYPE_TO_TORCH_DTYPE`; CacheDType).
SPELLINGS = {"half": "float16", "float": "float32", "fp8": "fp8_e4m3"}

AGREED: tuple[Agreed, ...] = (
    Agreed(
        "--kv-cache-dtype", "the bytes of a block are copied as they are",
        "moriio_layout.compute_block_transfer_offsets", default="auto",
    ),
    Agreed(
        "--dtype", "the bytes of a block are copied as they are",
        "moriio_layout.compute_block_transfer_offsets", default="auto",
    ),
    Agreed(
        "--block-size", "blocks are copied as units, so both sides must hold as many tokens in one",
        "MoRIIOConnectorWorker._check_peer_block_size (0.33.0); unchecked before",
    ),
    Agreed(
        "--attention-backend", "it decides the order of heads and tokens in a block",
        "MoRIIOConnectorWorker._block_copy_matches_peer (0.33.0); unchecked before",
    ),
    Agreed(
        "--mamba-cache-mode", "it decides which blocks hold the state of a layer",
        "docs/features/moriio_connector_usage.md, Hybrid models (0.33.0)", state_only=True,
    ),
)  # fmt: skip

# The shortest beginning by which vLLM 0.33.0 tells a flag from all others; a flag that is not
# here is read by its whole name.
_SHORTEST = {
    "--attention-backend": "--attention-b",
    "--block-size": "--b",
    "--disable-hybrid-kv-cache-manager": "--disable-h",
    "--dtype": "--dt",
    "--enable-cumem-allocator": "--enable-cu",
    "--enable-prefix-caching": "--enable-pre",
    "--enable-return-routed-experts": "--enable-r",
    "--enable-sleep-mode": "--enable-sl",
    "--mamba-cache-mode": "--mamba-cache-m",
    "--no-disable-hybrid-kv-cache-manager": "--no-disable-h",
    "--no-enable-prefix-caching": "--no-enable-pre",
    "--spec-method": "--spec-me",
    "--spec-model": "--spec-mo",
    "--spec-tokens": "--spec-t",
    "--speculative-config": "--specu",
    "--use-replayssm": "--use-r",
}
_SPECULATION = ("--speculative-config", "--spec-method", "--spec-model", "--spec-tokens")


def has(name: str, version: Version = NEWEST) -> bool:
    """Return whether a version's parser knows a flag that we render."""
    return any(flag.name == name and flag.first <= version for flag in RENDERED)


def given(args: Sequence[str], name: str) -> str | None:
    """Give a flag's value as the last one sets it; "" when it has none, None if it is not there."""
    return next((value for _, value in reversed(list(_uses(args, name)))), None)


def switched(args: Sequence[str], name: str) -> bool | None:
    """Return whether a switch such as `--enable-x` is on, off by `--no-enable-x`, or not given."""
    off = f"--no-{name.removeprefix('--')}"
    for argument in reversed(args):
        if _is(argument, name):
            return True
        if _is(argument, off):
            return False
    return None


def speculates(args: Sequence[str]) -> bool:
    """Return whether speculative decoding is asked for."""
    return any(given(args, name) is not None for name in _SPECULATION)


def speculative_method(args: Sequence[str]) -> str | None:
    """Give the method of speculative decoding, as far as the arguments tell it."""
    method = given(args, "--spec-method")
    for argument, value in _uses(args, "--speculative-config"):
        key = argument.split("=", 1)[0].partition(".")[2]
        named = value if key == "method" else None if key else _member(value, "method")
        method = named if named is not None else method
    return method


def _uses(args: Sequence[str], name: str) -> Iterator[tuple[str, str]]:
    """Give every use of a flag with its value."""
    for index, argument in enumerate(args):
        if _is(argument, name):
            following = args[index + 1] if index + 1 < len(args) else ""
            _, equals, value = argument.partition("=")
            yield argument, value if equals else "" if following.startswith("--") else following


def _is(argument: str, name: str) -> bool:
    option = argument.split("=", 1)[0].split(".", 1)[0].replace("_", "-")
    return name.startswith(option) and option.startswith(_SHORTEST.get(name, name))


def _member(text: str, key: str) -> str | None:
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        return None
    value = read.get(key) if isinstance(read, dict) else None
    return value if isinstance(value, str) else None

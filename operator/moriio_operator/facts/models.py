"""What a version's connector can carry of a model: kinds of layers, drafts, cached prefixes.

Sources: `MoRIIOConnectorScheduler.__init__` and `update_state_after_alloc` of every version in
`versions.KNOWN`; up to 0.29 the connector does not support the hybrid KV cache manager, which vLLM
then turns off (`vllm/config/vllm.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from moriio_operator.facts.terms import STATE_LAYERS, Layer, Mode, Role
from moriio_operator.facts.versions import OLDEST, Version

HYBRID_FLAG = "--disable-hybrid-kv-cache-manager"

# How the convolution's state must lie in memory for the connector to split it.
STATE_LAYOUT = ("VLLM_SSM_CONV_STATE_LAYOUT", "DS")
STATE_LAYOUT_SOURCE = "MoRIIOConnectorWorker.register_kv_caches, is_conv_state_dim_first (0.31.0)"

# The only method of speculative decoding beside layers with a state.
DSPARK = "dspark"
DSPARK_FIRST = Version(0, 32)

# It carries their state between engines of one tensor parallel size only
# (`_mamba_tp_ratio`, 0.31.0 to 0.33.0); Write slices it.
SAME_SIZE_MODE = Mode.READ

BOTH = (Mode.READ, Mode.WRITE)


@dataclass(frozen=True, slots=True)
class LayerRule:
    """Layers that some versions do not carry in some modes."""

    layers: frozenset[Layer]
    modes: tuple[Mode, ...]
    first: Version
    # The first version that carries them; None: none does.
    until: Version | None
    why: str
    remedy: str
    source: str
    # It does not hold when the hybrid KV cache manager is turned off.
    hybrid_only: bool = False

    def holds(self, version: Version, mode: Mode, *, hybrid: bool) -> bool:
        """Return whether it holds; `hybrid` if the hybrid KV cache manager is not turned off."""
        known = self.first <= version and (self.until is None or version < self.until)
        return known and mode in self.modes and (hybrid or not self.hybrid_only)


@dataclass(frozen=True, slots=True)
class RoleRule:
    """Something of vLLM that a role may not use in one mode before a version."""

    role: Role
    mode: Mode
    until: Version
    why: str
    source: str

    def holds(self, version: Version, mode: Mode, role: Role) -> bool:
        """Return whether it holds for the engines of a role."""
        return mode is self.mode and role is self.role and version < self.until


LAYER_RULES: tuple[LayerRule, ...] = (
    LayerRule(
        STATE_LAYERS, BOTH, OLDEST, Version(0, 31),
        "the connector carries attention only",
        "use vLLM 0.31 (Read) or 0.33 (Read and Write)",
        "no SupportsHMA up to 0.29.0; NotImplementedError for other than sliding-window groups in "
        "0.30.0",
    ),
    LayerRule(
        STATE_LAYERS, (Mode.WRITE,), Version(0, 31), Version(0, 33),
        "the connector carries their state in Read mode only",
        "set spec.connector.mode to Read, or use vLLM 0.33",
        "MoRIIOConnectorScheduler.__init__ (0.31.0, 0.32.0)",
    ),
    LayerRule(
        frozenset({Layer.SLIDING_WINDOW}), (Mode.WRITE,), Version(0, 30), None,
        "the connector carries sliding-window layers in Read mode only",
        f"set spec.connector.mode to Read, or add {HYBRID_FLAG} to the args of both roles",
        "MoRIIOConnectorScheduler.__init__ (0.30.0 to 0.33.0)", hybrid_only=True,
    ),
)  # fmt: skip

PREFIX_CACHING: tuple[RoleRule, ...] = (
    RoleRule(
        Role.DECODE, Mode.READ, Version(0, 31),
        "decode pairs the blocks that it lacks with the wrong ones of prefill",
        "update_state_after_alloc (0.20.0 to 0.30.0; fixed by _align_read_blocks in 0.31.0), "
        "vllm-project/vllm#48471",
    ),
)  # fmt: skip

SPECULATION: tuple[RoleRule, ...] = (
    RoleRule(
        Role.DECODE, Mode.READ, Version(0, 31),
        "decode holds blocks for drafted tokens that prefill has not, and stops at that",
        "update_state_after_alloc, assert on the number of blocks (0.20.0 to 0.30.0)",
    ),
    RoleRule(
        Role.PREFILL, Mode.WRITE, Version(0, 32),
        "prefill holds blocks for drafted tokens that decode has not, and cannot place them",
        "_clamp_to_prompt_blocks, which came in 0.32.0",
    ),
)  # fmt: skip


def layer_problems(
    version: Version, mode: Mode, layers: Collection[Layer], *, hybrid: bool
) -> Iterator[str]:
    """Say which of a model's layers a version does not carry, each with its remedy."""
    for rule in LAYER_RULES:
        met = [str(layer) for layer in layers if layer in rule.layers]
        if met and rule.holds(version, mode, hybrid=hybrid):
            yield f"{' and '.join(met)} in {mode} mode of vLLM {version}: {rule.why}: {rule.remedy}"
    yield from _mixture_problems(version, mode, set(layers), hybrid=hybrid)


def _mixture_problems(
    version: Version, mode: Mode, layers: set[Layer], *, hybrid: bool
) -> Iterator[str]:
    """Say which layers do not go together; `_split_kv_cache_group_kinds` (0.31.0 to 0.33.0)."""
    if not carries_state(version, mode) or not layers & STATE_LAYERS:
        return
    attention = layers - STATE_LAYERS
    if not attention:
        yield (
            "only layers that keep a state: the connector wants attention layers beside them: "
            "complete the list, or use another model"
        )
    if len(attention) > 1 and mode is Mode.READ:
        yield (
            f"{' and '.join(sorted(attention))} beside layers that keep a state: Read mode takes "
            "one kind of attention beside those: use another model"
        )
    if not hybrid:
        yield (
            f"layers that keep a state cannot be served with {HYBRID_FLAG}: remove it from the args"
        )


def carries_state(version: Version, mode: Mode) -> bool:
    """Return whether a version carries layers that keep a state."""
    rules = (rule for rule in LAYER_RULES if rule.layers == STATE_LAYERS)
    return not any(rule.holds(version, mode, hybrid=True) for rule in rules)


def drafts_beside_state(version: Version, method: str | None) -> str | None:
    """Say why a method of speculative decoding does not go with layers that keep a state.

    `_validate_hybrid_speculation` (0.32.0, 0.33.0); 0.31.0 takes none.
    """
    if version < DSPARK_FIRST:
        return f"goes with no speculative decoding before vLLM {DSPARK_FIRST}"
    if method is None or method.lower() == DSPARK:
        return None
    return f"goes with the method {DSPARK} only"


def breaks_prefix_caching(version: Version, mode: Mode, role: Role) -> RoleRule | None:
    """Give the rule by which a role's prefix caching must be off, if there is one."""
    return next((rule for rule in PREFIX_CACHING if rule.holds(version, mode, role)), None)


def breaks_speculation(version: Version, mode: Mode, role: Role) -> RoleRule | None:
    """Give the rule by which a role may not speculate, if there is one."""
    return next((rule for rule in SPECULATION if rule.holds(version, mode, role)), None)

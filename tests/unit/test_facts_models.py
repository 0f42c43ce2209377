"""Layers, drafts and cached prefixes that a version's connector carries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moriio_operator.facts import models
from moriio_operator.facts.models import LAYER_RULES, PREFIX_CACHING, SPECULATION
from moriio_operator.facts.terms import STATE_LAYERS, Layer, Mode, Role
from moriio_operator.facts.versions import KNOWN, NEWEST, Version

READ, WRITE = Mode.READ, Mode.WRITE
FULL, SLIDING = Layer.FULL_ATTENTION, Layer.SLIDING_WINDOW
SPACE, LINEAR = Layer.STATE_SPACE, Layer.LINEAR_ATTENTION


def problems(version: Version, mode: Mode, *layers: Layer, hybrid: bool = True) -> str:
    return "; ".join(models.layer_problems(version, mode, layers, hybrid=hybrid))


@pytest.mark.parametrize("version", KNOWN, ids=str)
@pytest.mark.parametrize("mode", Mode)
def test_full_attention_is_carried_everywhere(version: Version, mode: Mode) -> None:
    assert not problems(version, mode, FULL)


@pytest.mark.parametrize(
    ("version", "mode", "carried"),
    [
        (Version(0, 30), READ, False),
        (Version(0, 30), WRITE, False),
        (Version(0, 31), READ, True),
        (Version(0, 31), WRITE, False),
        (Version(0, 32), WRITE, False),
        (Version(0, 33), READ, True),
        (Version(0, 33), WRITE, True),
    ],
)
@pytest.mark.parametrize("layer", sorted(STATE_LAYERS))
def test_layers_with_a_state_came_to_read_and_then_to_write(
    version: Version, mode: Mode, layer: Layer, *, carried: bool
) -> None:
    assert bool(problems(version, mode, FULL, layer)) is not carried
    assert models.carries_state(version, mode) is carried


@pytest.mark.parametrize(
    ("version", "mode", "hybrid", "carried"),
    [
        (Version(0, 29), READ, True, True),
        (Version(0, 29), WRITE, True, True),
        (Version(0, 30), READ, True, True),
        (Version(0, 30), WRITE, True, False),
        (Version(0, 33), WRITE, True, False),
        (Version(0, 33), WRITE, False, True),
        (Version(0, 33), READ, True, True),
    ],
)
def test_sliding_windows_need_read_or_no_hybrid_manager(
    version: Version, mode: Mode, *, hybrid: bool, carried: bool
) -> None:
    assert bool(problems(version, mode, FULL, SLIDING, hybrid=hybrid)) is not carried


@pytest.mark.parametrize(
    ("version", "mode", "layers", "text"),
    [
        (Version(0, 30), READ, [FULL, SPACE], "StateSpace in Read mode of vLLM 0.30.0"),
        (Version(0, 30), READ, [FULL, SPACE], "use vLLM 0.31 (Read) or 0.33"),
        (Version(0, 32), WRITE, [FULL, LINEAR], "set spec.connector.mode to Read"),
        (NEWEST, WRITE, [FULL, SLIDING], "add --disable-hybrid-kv-cache-manager to the args"),
        (NEWEST, WRITE, [SPACE], "wants attention layers beside them"),
        (NEWEST, READ, [FULL, SLIDING, LINEAR], "takes one kind of attention beside those"),
        (NEWEST, READ, [FULL, SPACE, LINEAR], ""),
        (NEWEST, READ, [SLIDING, SPACE], ""),
    ],
)
def test_a_refusal_says_what_and_what_to_do(
    version: Version, mode: Mode, layers: list[Layer], text: str
) -> None:
    found = problems(version, mode, *layers)
    assert text in found if text else not found


def test_layers_with_a_state_need_the_hybrid_manager() -> None:
    assert "remove it from the args" in problems(NEWEST, READ, FULL, SPACE, hybrid=False)


@given(st.sampled_from(KNOWN), st.sampled_from(Mode), st.lists(st.sampled_from(Layer), unique=True))
def test_write_carries_no_more_than_read_but_a_mixture(
    version: Version, mode: Mode, layers: list[Layer]
) -> None:
    alone = [problems(version, READ, FULL, layer) for layer in layers]
    if any(alone):
        assert problems(version, mode, FULL, *layers)


@pytest.mark.parametrize(
    ("version", "mode", "role", "broken"),
    [
        (Version(0, 20), READ, Role.DECODE, True),
        (Version(0, 30), READ, Role.DECODE, True),
        (Version(0, 31), READ, Role.DECODE, False),
        (Version(0, 30), READ, Role.PREFILL, False),
        (Version(0, 30), WRITE, Role.DECODE, False),
    ],
)
def test_prefix_caching_was_broken_on_the_side_that_reads(
    version: Version, mode: Mode, role: Role, *, broken: bool
) -> None:
    assert (models.breaks_prefix_caching(version, mode, role) is not None) is broken


@pytest.mark.parametrize(
    ("version", "mode", "role", "broken"),
    [
        (Version(0, 30), READ, Role.DECODE, True),
        (Version(0, 31), READ, Role.DECODE, False),
        (Version(0, 30), READ, Role.PREFILL, False),
        (Version(0, 31), WRITE, Role.PREFILL, True),
        (Version(0, 32), WRITE, Role.PREFILL, False),
        (Version(0, 31), WRITE, Role.DECODE, False),
    ],
)
def test_blocks_of_drafted_tokens_broke_a_side(
    version: Version, mode: Mode, role: Role, *, broken: bool
) -> None:
    assert (models.breaks_speculation(version, mode, role) is not None) is broken


@pytest.mark.parametrize(
    ("version", "method", "why"),
    [
        (Version(0, 31), "dspark", "before vLLM 0.32"),
        (Version(0, 31), None, "before vLLM 0.32"),
        (Version(0, 32), "dspark", None),
        (NEWEST, "DSpark", None),
        (NEWEST, None, None),
        (NEWEST, "eagle", "dspark only"),
    ],
)
def test_beside_a_state_one_method_of_drafting_goes(
    version: Version, method: str | None, why: str | None
) -> None:
    found = models.drafts_beside_state(version, method)
    assert found is None if why is None else why in (found or "")


def test_every_row_has_a_source() -> None:
    assert all(rule.source and rule.why and rule.remedy for rule in LAYER_RULES)
    assert all(rule.source and rule.why for rule in (*PREFIX_CACHING, *SPECULATION))
    assert all(rule.first in KNOWN for rule in LAYER_RULES)
    assert models.STATE_LAYOUT_SOURCE

"""Sizes of prefill and decode that fit together, by version and mode."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moriio_operator.facts import topology
from moriio_operator.facts.terms import Attention, Mode
from moriio_operator.facts.topology import DEFECTS, RULES, heterogeneous, missing_facts
from moriio_operator.facts.versions import KNOWN, NEWEST, OLDEST, Version

READ, WRITE = Mode.READ, Mode.WRITE
GQA, MLA = Attention.GQA, Attention.MLA

versions = st.sampled_from(KNOWN)
modes = st.sampled_from(Mode)
attentions = st.sampled_from([None, *Attention])
heads = st.none() | st.integers(1, 128)
sizes = st.integers(1, 16)


@pytest.mark.parametrize(
    ("version", "mode", "attention", "kv_heads", "prefill", "decode", "why"),
    [
        (Version(0, 24), READ, MLA, None, 2, 4, "must be equal in Read mode of vLLM 0.24.0"),
        (Version(0, 24), WRITE, MLA, None, 4, 2, "must be equal in Write mode of vLLM 0.24.0"),
        (Version(0, 25, 1), READ, MLA, None, 4, 2, None),
        (Version(0, 25, 1), READ, GQA, 2, 4, 2, None),
        (Version(0, 32), READ, GQA, 2, 2, 8, None),
        (Version(0, 25, 1), READ, GQA, 4, 4, 2, "do not fit 4 KV heads"),
        (NEWEST, READ, GQA, 8, 8, 4, "neither may be smaller than the number of heads"),
        (NEWEST, READ, MLA, None, 4, 6, "one must be a multiple of the other"),
        (Version(0, 32), WRITE, MLA, None, 2, 4, "must be equal in Write mode of vLLM 0.32.0"),
        (Version(0, 32), WRITE, GQA, 1, 2, 4, "must be equal in Write mode"),
        (NEWEST, WRITE, MLA, None, 2, 4, None),
        (NEWEST, WRITE, GQA, 8, 4, 2, None),
        (NEWEST, WRITE, GQA, 8, 2, 16, None),
        (NEWEST, WRITE, GQA, 6, 2, 4, "each must divide the number of heads or be a multiple"),
        (NEWEST, WRITE, GQA, 8, 6, 3, "do not fit 8 KV heads"),
        (NEWEST, WRITE, GQA, 8, 4, 6, "one must be a multiple of the other"),
        (NEWEST, WRITE, None, None, 4, 6, "one must be a multiple of the other"),
        (NEWEST, WRITE, None, None, 4, 8, None),
    ],
)
def test_unequal_sizes_fit_or_not(
    version: Version,
    mode: Mode,
    attention: Attention | None,
    kv_heads: int | None,
    prefill: int,
    decode: int,
    why: str | None,
) -> None:
    found = heterogeneous(version, mode, attention, kv_heads, prefill, decode)
    if why is None:
        assert found is None
    else:
        assert found is not None
        assert why in found
        assert f"tensor {prefill} (prefill) and {decode} (decode)" in found


@given(versions, modes, attentions, heads, sizes)
def test_equal_sizes_always_fit(
    version: Version, mode: Mode, attention: Attention | None, kv_heads: int | None, size: int
) -> None:
    assert heterogeneous(version, mode, attention, kv_heads, size, size) is None


@given(versions, modes, heads, sizes, sizes)
def test_latents_fit_wherever_heads_do(
    version: Version, mode: Mode, kv_heads: int | None, prefill: int, decode: int
) -> None:
    if heterogeneous(version, mode, GQA, kv_heads, prefill, decode) is None:
        assert heterogeneous(version, mode, MLA, kv_heads, prefill, decode) is None


@given(versions, modes, attentions, heads, sizes, sizes)
def test_a_fact_is_missed_just_when_it_could_still_refuse(
    version: Version,
    mode: Mode,
    attention: Attention | None,
    kv_heads: int | None,
    prefill: int,
    decode: int,
) -> None:
    shape = (prefill, decode)
    fits = heterogeneous(version, mode, attention, kv_heads, *shape) is None
    could_refuse = attention is not MLA and any(
        heterogeneous(version, mode, GQA, h, *shape)
        for h in ([kv_heads] if kv_heads else range(1, 129))
    )
    open_fact = attention is None or (attention is GQA and kv_heads is None)
    missing = missing_facts(version, mode, attention, kv_heads, *shape)
    assert bool(missing) == (fits and could_refuse and open_fact)


@pytest.mark.parametrize(
    ("attention", "kv_heads", "missing"),
    [
        (None, None, ("attention", "kvHeads")),
        (None, 6, ("attention",)),
        (None, 8, ()),
        (GQA, None, ("kvHeads",)),
        (GQA, 8, ()),
        (MLA, None, ()),
    ],
)
def test_the_missing_facts_are_named(
    attention: Attention | None, kv_heads: int | None, missing: tuple[str, ...]
) -> None:
    assert missing_facts(NEWEST, WRITE, attention, kv_heads, 8, 4) == missing


@pytest.mark.parametrize(
    ("version", "mode", "prefill", "path"),
    [
        (Version(0, 22, 1), WRITE, {}, "spec.connector.mode"),
        (Version(0, 23), WRITE, {}, None),
        (Version(0, 22, 1), READ, {}, "spec.connector.mode"),
        (Version(0, 23), READ, {}, None),
        (Version(0, 25, 1), WRITE, {"tensor": 2}, "spec.prefill.parallelism.tensor"),
        (Version(0, 26), WRITE, {"tensor": 8}, "spec.prefill.parallelism.tensor"),
        (Version(0, 26), WRITE, {"tensor": 1}, None),
        (Version(0, 26), READ, {"tensor": 8}, None),
        (Version(0, 24), WRITE, {"tensor": 8}, None),
        (Version(0, 27, 1), WRITE, {"tensor": 8}, None),
        (Version(0, 27, 1), READ, {"dataLocal": 2}, "spec.prefill.parallelism.dataLocal"),
        (Version(0, 27, 1), WRITE, {"dataLocal": 2}, None),
        (Version(0, 28), READ, {"dataLocal": 2}, None),
    ],
)
def test_what_was_broken_is_told_while_it_was(
    version: Version, mode: Mode, prefill: dict[str, int], path: str | None
) -> None:
    found = topology.defects(version, mode, prefill.get("tensor", 1), prefill.get("dataLocal", 1))
    assert [defect.path for defect in found] == ([] if path is None else [path])


@pytest.mark.parametrize(
    ("prefill", "decode", "own", "why"),
    [
        ("", "", (1, 1), None),
        ("0 1", "1 0", (1, 1), None),
        ("0 1 2 3", "2 3 0 1", (2, 2), None),
        ("0 1", "0 1", (1, 1), "both would use 0"),
        ("0 1 2 3", "3 2 1 0", (3, 2), "both would use 2"),
        ("0 1", "2 3", (2, 2), "each side must see all GPUs of the other"),
        ("0 1", "", (1, 1), "each side must see all GPUs of the other"),
    ],
)
def test_with_xgmi_each_side_sees_all_and_computes_on_its_own(
    prefill: str, decode: str, own: tuple[int, int], why: str | None
) -> None:
    found = topology.visibility(prefill.split(), decode.split(), own)
    assert found is None if why is None else why in (found or "")


def test_the_table_of_rules_covers_every_version_and_mode_once() -> None:
    for version in KNOWN:
        for mode in Mode:
            held = [
                rule
                for rule in RULES
                if mode in rule.modes
                and rule.first <= version
                and (rule.until is None or version < rule.until)
            ]
            assert len(held) == 1


def test_every_row_has_a_source() -> None:
    assert all(rule.source and rule.condition for rule in RULES)
    assert all(defect.source and defect.why and defect.remedy for defect in DEFECTS)
    assert all(rule.first in KNOWN or rule.first == Version(0, 25) for rule in RULES)
    assert OLDEST in {rule.first for rule in RULES}

"""Flags as a user writes them are read as vLLM's parser reads them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moriio_operator.facts import flags
from moriio_operator.facts.flags import AGREED, REFUSED, RENDERED
from moriio_operator.facts.versions import KNOWN, Version


@pytest.mark.parametrize(
    ("args", "value"),
    [
        ([], None),
        (["--block-size", "32"], "32"),
        (["--block-size=32"], "32"),
        (["--block_size=32"], "32"),
        (["--block_size", "32"], "32"),
        (["--block", "32"], "32"),
        (["--b=32"], "32"),
        (["--block-size", "16", "--block-size", "32"], "32"),
        (["--block-size", "--seed", "1"], ""),
        (["--block-size"], ""),
        (["--block-size="], ""),
        (["--block-sizes", "32"], None),
        (["--seed", "block-size"], None),
        (["--", "32"], None),
        (["-b", "32"], None),
    ],
)
def test_a_value_is_found_however_it_is_written(args: list[str], value: str | None) -> None:
    assert flags.given(args, "--block-size") == value


def test_a_flag_whose_name_begins_others_is_read_by_its_whole_name() -> None:
    args = ["--kv-cache-dtype-skip-layers", "0", "--kv-cache-d", "fp8"]
    assert flags.given(args, "--kv-cache-dtype") is None
    assert flags.given([*args, "--kv-cache-dtype", "fp8"], "--kv-cache-dtype") == "fp8"


@pytest.mark.parametrize(
    ("args", "on"),
    [
        ([], None),
        (["--enable-prefix-caching"], True),
        (["--enable_prefix_caching"], True),
        (["--enable-prefix"], True),
        (["--no-enable-prefix-caching"], False),
        (["--enable-prefix-caching", "--no-enable-prefix-caching"], False),
        (["--no-enable-prefix-caching", "--enable-prefix-caching"], True),
        (["--enable-p"], None),
    ],
)
def test_the_last_use_of_a_switch_holds(args: list[str], *, on: bool | None) -> None:
    assert flags.switched(args, "--enable-prefix-caching") is on


@pytest.mark.parametrize(
    ("args", "asked", "method"),
    [
        ([], False, None),
        (["--speculative-config", json.dumps({"method": "dspark"})], True, "dspark"),
        ([f"--speculative_config={json.dumps({'method': 'eagle'})}"], True, "eagle"),
        (["--speculative-config", json.dumps({"model": "org/draft"})], True, None),
        (["--speculative-config.method", "mtp"], True, "mtp"),
        (["--speculative-config.method=mtp"], True, "mtp"),
        (["--speculative-config.num_speculative_tokens", "3"], True, None),
        (["--speculative-config", "{"], True, None),
        (["--speculative-config", "[]"], True, None),
        (["--spec-method", "ngram"], True, "ngram"),
        (["--spec-tokens=3"], True, None),
        (["--spec_me", "ngram"], True, "ngram"),
        (["--spec-m", "ngram"], False, None),
        (["--spec-model", "org/draft"], True, None),
    ],
)
def test_speculative_decoding_is_seen(args: list[str], method: str | None, *, asked: bool) -> None:
    assert flags.speculates(args) is asked
    assert flags.speculative_method(args) == method


@given(st.lists(st.text()))
def test_no_arguments_confuse_the_reading(args: list[str]) -> None:
    flags.given(args, "--block-size")
    flags.switched(args, "--enable-prefix-caching")
    assert flags.speculates(args) or flags.speculative_method(args) is None


@given(st.integers(1, 4096).map(str), st.integers(5, 12), st.sampled_from("-_"))
def test_every_spelling_of_a_flag_gives_its_value(value: str, length: int, dash: str) -> None:
    name = "--" + "block-size"[: length - 2].replace("-", dash)
    assert flags.given([name, value], "--block-size") == value
    assert flags.given([f"{name}={value}"], "--block-size") == value


def test_every_version_knows_what_we_render() -> None:
    assert all(flags.has(flag.name, version) for flag in RENDERED for version in KNOWN)
    assert not flags.has("--no-such-flag")
    assert not flags.has("--port", Version(0, 19))


def test_every_row_has_a_source() -> None:
    assert all(flag.source and flag.comes_from for flag in RENDERED)
    assert all(refused.source and refused.why for refused in REFUSED)
    assert all(agreed.source and agreed.why for agreed in AGREED)
    assert {flag.first for flag in RENDERED} | {refused.first for refused in REFUSED} <= set(KNOWN)

"""What engines tell of their model, read from the wire and from logs, and held against the spec."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from moriio_operator.api.model import Facts
from moriio_operator.facts.terms import Attention
from moriio_operator.facts.versions import Version
from moriio_operator.stack.vllm_moriio.description import (
    DESCRIBED,
    Description,
    differences,
    from_handshake,
    of_line,
    version_of_log,
    words,
)
from structlog.processors import LogfmtRenderer

# As a rank of vLLM 0.33 tells it: six numbers a layer, the first of them its heads.
LAYOUT = [2, 32, 128, 8192, 128, 256, 0, 4096]


def metadata(**told: Any) -> bytes:
    made: bytes = msgpack.packb(
        {
            "engine_id": "x",
            "agent_metadata": b"\x00",
            "kv_caches_base_addr": [1],
            "num_blocks": 256,
            "block_len": 8192,
            "attn_backend_name": "TRITON_ATTN",
            **told,
        }
    )
    return made


@pytest.mark.parametrize(
    ("told", "tensor", "description"),
    [
        ({}, 1, Description(Attention.GQA)),
        ({"attn_backend_name": "ROCM_AITER_MLA"}, 8, Description(Attention.MLA)),
        ({"kv_head_layouts": {"a": LAYOUT}}, 1, Description(Attention.GQA, 2, state=False)),
        ({"kv_head_layouts": {"a": LAYOUT}}, 4, Description(Attention.GQA, 8, state=False)),
        # One head a rank may be a copy of another rank's.
        (
            {"kv_head_layouts": {"a": [1, *LAYOUT[1:]]}},
            4,
            Description(Attention.GQA, None, state=False),
        ),
        (
            {"kv_head_layouts": {"a": LAYOUT, "b": [4, *LAYOUT[1:]]}},
            1,
            Description(Attention.GQA, None, state=False),
        ),
        (
            {"kv_head_layouts": {"a": LAYOUT}, "mamba_state_layouts": {"b": [1]}},
            1,
            Description(Attention.GQA, 2, state=True),
        ),
        (
            {"attn_backend_name": "FLASHMLA", "mamba_state_layouts": {"b": [1]}},
            1,
            Description(Attention.MLA, None, state=True),
        ),
    ],
)
def test_metadata_is_read(told: Any, tensor: int, description: Description) -> None:
    assert from_handshake(metadata(**told), tensor) == description


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\xc1",
        msgpack.packb([1]),
        msgpack.packb({}),
        msgpack.packb(None),
        metadata(attn_backend_name=b"\xff"),
        metadata(kv_head_layouts=[1]),
        metadata(kv_head_layouts={"a": []}),
        metadata(kv_head_layouts={"a": 1}),
    ],
)
def test_what_is_no_metadata_is_told_so(frame: bytes) -> None:
    with pytest.raises(ValueError, match="no metadata of a handshake"):
        from_handshake(frame, 1)


@given(st.binary(max_size=64))
def test_bytes_of_any_kind_give_a_description_or_a_value_error(frame: bytes) -> None:
    try:
        from_handshake(frame, 1)
    except ValueError:
        return


DESCRIPTIONS = st.builds(
    Description,
    st.sampled_from([None, *Attention]),
    st.one_of(st.none(), st.integers(1, 128)),
    st.sampled_from([None, True, False]),
)


@given(DESCRIPTIONS)
def test_what_a_registrar_logs_is_what_the_operator_reads(told: Description) -> None:
    fields = {"level": "info", "event": DESCRIBED, "pod_uid": "u-1", **words(told)}
    line = LogfmtRenderer(key_order=["level", "event"])(None, "", fields)
    assert of_line(line) == ("u-1", told)


@pytest.mark.parametrize(
    "line",
    [
        "",
        'event="engine serves" pod_uid=u-1 role=P',
        f'event="{DESCRIBED}" attention=GQA',
        f'event="{DESCRIBED}" pod_uid=u-1 attention=Sparse',
        # Words of a peer that an error repeats.
        f'event="x" error="event={DESCRIBED} pod_uid=u-1 attention=MLA"',
        f'event="x" error="\\"event=\\"{DESCRIBED}\\" pod_uid=u-1 attention=MLA"',
    ],
)
def test_other_lines_tell_nothing(line: str) -> None:
    assert of_line(line) is None


def test_the_version_is_the_one_by_which_vllm_introduces_itself() -> None:
    log = (
        "INFO x\nINFO 05-04 [core.py:140] Initializing a V1 LLM engine (v0.32.1.dev3) with config:"
    )
    assert version_of_log(log) == Version(0, 32, 1)
    assert version_of_log("nothing of the kind") is None


def facts(**stated: Any) -> Facts:
    return Facts.model_validate(stated)


@pytest.mark.parametrize(
    ("stated", "told"),
    [
        (facts(), Description(Attention.MLA, 4, state=True)),
        (facts(attention="MLA", kvHeads=4, layers=["StateSpace"]), Description()),
        (
            facts(attention="GQA", kvHeads=4, layers=["FullAttention"]),
            Description(Attention.GQA, 4, state=False),
        ),
        (facts(layers=["FullAttention", "LinearAttention"]), Description(state=True)),
    ],
)
def test_what_is_not_stated_or_not_told_does_not_differ(stated: Facts, told: Description) -> None:
    assert differences(stated, told) == []


def test_each_fact_that_differs_is_named_with_both_values() -> None:
    stated = facts(attention="MLA", kvHeads=8, layers=["FullAttention"])
    assert differences(stated, Description(Attention.GQA, 4, state=True)) == [
        "spec.model.facts.attention is stated as MLA, and the engine tells GQA: correct it",
        "spec.model.facts.kvHeads is stated as 8, and the engine tells 4: correct it",
        "spec.model.facts.layers is stated as FullAttention, and the engine tells layers that keep "
        "a state (StateSpace or LinearAttention): correct it",
    ]


def test_layers_with_a_state_that_are_not_there_are_named() -> None:
    [text] = differences(facts(layers=["StateSpace"]), Description(state=False))
    assert text.endswith("the engine tells none of those: correct it")

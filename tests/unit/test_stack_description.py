"""What engines report of themselves, read from the wire."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from moriio_operator.facts.terms import Attention
from moriio_operator.stack.vllm_moriio.description import (
    Description,
    from_handshake,
    version_from_answer,
)

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
        (
            {"kv_head_layouts": {"a": LAYOUT}},
            1,
            Description(Attention.GQA, 2, recurrent_state=False),
        ),
        (
            {"kv_head_layouts": {"a": LAYOUT}},
            4,
            Description(Attention.GQA, 8, recurrent_state=False),
        ),
        # One head a rank may be a copy of another rank's.
        (
            {"kv_head_layouts": {"a": [1, *LAYOUT[1:]]}},
            4,
            Description(Attention.GQA, None, recurrent_state=False),
        ),
        (
            {"kv_head_layouts": {"a": LAYOUT, "b": [4, *LAYOUT[1:]]}},
            1,
            Description(Attention.GQA, None, recurrent_state=False),
        ),
        (
            {"kv_head_layouts": {"a": LAYOUT}, "mamba_state_layouts": {"b": [1]}},
            1,
            Description(Attention.GQA, 2, recurrent_state=True),
        ),
        (
            {"attn_backend_name": "FLASHMLA", "mamba_state_layouts": {"b": [1]}},
            1,
            Description(Attention.MLA, None, recurrent_state=True),
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
        metadata(kv_head_layouts={"a": [float("inf")]}),
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


@pytest.mark.parametrize(
    ("body", "version"),
    [
        (b'{"version":"0.32.0"}', "0.32.0"),
        (b'{"version": "0.33.1.dev5+g1", "more": []}', "0.33.1.dev5+g1"),
    ],
)
def test_the_version_is_read_from_the_answer(body: bytes, version: str) -> None:
    assert version_from_answer(body) == version


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b"null", b"\xff", b"[" * 4096])
def test_an_answer_without_a_version_is_told_so(body: bytes) -> None:
    with pytest.raises(ValueError, match="no answer about a version"):
        version_from_answer(body)

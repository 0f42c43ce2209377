"""The request id by which both sides find each other."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moriio_operator.facts.router import request_id, zmq_address

SUFFIX = "0123456789abcdef" * 2


def test_it_names_prefill_then_decode_then_the_suffix() -> None:
    prefill = zmq_address("198.18.1.7", 20_002, 20_003)
    decode = zmq_address("198.18.2.8", 20_102, 20_103)
    assert request_id(prefill, decode, SUFFIX) == (
        "___prefill_addr_host:198.18.1.7,handshake:20002,notify:20003"
        "___decode_addr_host:198.18.2.8,handshake:20102,notify:20103"
        f"_{SUFFIX}"
    )


@pytest.mark.parametrize("suffix", ["", "0" * 31, "0" * 33, "G" * 32, "A" * 32, f"{SUFFIX}\n"])
def test_a_suffix_that_vllm_would_not_recognise_is_refused(suffix: str) -> None:
    with pytest.raises(ValueError, match="32 hexadecimal digits"):
        request_id("p", "d", suffix)


@given(*[st.from_regex(r"host:[0-9.]+,handshake:[0-9]+,notify:[0-9]+", fullmatch=True)] * 2)
def test_both_addresses_can_be_read_back(prefill: str, decode: str) -> None:
    found = re.fullmatch(
        r"___prefill_addr_(.+?)___decode_addr_(.+)_[0-9a-f]{32}",
        request_id(prefill, decode, SUFFIX),
    )
    assert found is not None
    assert found.groups() == (prefill, decode)

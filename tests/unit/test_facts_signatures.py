"""The ends of logs that are recognised."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moriio_operator.facts.signatures import SIGNATURES, Signature, recognise
from moriio_operator.facts.versions import NEWEST, OLDEST

# What a remedy may name: a field, a flag, a Service, or somebody to tell.
REMEDY = re.compile(r"spec\.|Service|report it")


@pytest.mark.parametrize("signature", SIGNATURES, ids=lambda s: s.fragment)
def test_each_fragment_is_recognised_in_the_midst_of_a_log(signature: Signature) -> None:
    found = recognise(f"INFO 05-04 12:00:00 starting\nError: {signature.fragment} 7\nat line 3")
    assert found == signature


@pytest.mark.parametrize("signature", SIGNATURES, ids=lambda s: s.fragment)
def test_each_row_is_whole(signature: Signature) -> None:
    assert re.fullmatch(r"[A-Z][A-Za-z]+", signature.reason)
    assert REMEDY.search(signature.remedy)
    assert signature.source
    assert signature.speaker
    assert OLDEST <= signature.first <= signature.last <= NEWEST
    assert "\n" not in signature.fragment


def test_no_fragment_hides_a_later_one() -> None:
    for index, earlier in enumerate(SIGNATURES):
        hidden = [row for row in SIGNATURES[index + 1 :] if earlier.fragment in row.fragment]
        assert not hidden


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("zmq.error.ZMQError: Address already in use (addr='tcp://*:20002')", "PortInUse"),
        ("OSError: [Errno 98] Address already in use", "PortInUse"),
        ("vllm: error: unrecognized arguments: --no-such-flag", "UnknownFlag"),
        (
            "MoRIIOError: Failed to register local memory: errno 12\n"
            "Timed out waiting for load_ready_flag[198.18.1.7:20002]",
            "MemoryNotRegistered",
        ),
        (
            "TransferError: 2/4 transfers failed:\nRDMA transfer failed: flushed (1)",
            "TransferFailed",
        ),
        (
            "NotImplementedError: MoRIIO heterogeneous TP requires replicated KV heads on both\n"
            "Write task failed for request cmpl-1, marking done",
            "TensorSizesUnfit",
        ),
        ("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2 GiB", "GpuMemoryShort"),
        ("Assertion `availDevices.size() > 0' failed.", "NoRdmaDevice"),
        (
            "MoRIIO KDA conv transfer requires the DS (dim-first) state layout",
            "StateLayoutMissing",
        ),
    ],
)
def test_causes_come_before_their_consequences(log: str, reason: str) -> None:
    found = recognise(log)
    assert found is not None
    assert found.reason == reason


@pytest.mark.parametrize("log", ["", "INFO:     Shutting down", "exit code 1"])
def test_an_end_that_says_nothing_is_not_recognised(log: str) -> None:
    assert recognise(log) is None


@given(st.text())
def test_any_text_can_be_asked_about(text: str) -> None:
    found = recognise(text)
    assert found is None or found.fragment in text

"""A port block is contiguous, names every socket and can be read back from its names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moriio_operator.api.ports import placeholder
from moriio_operator.stack.vllm_moriio.ports import layout

RANKS = st.integers(1, 16)


@given(RANKS)
def test_the_named_ports_are_the_whole_block_each_once(ranks: int) -> None:
    # http, reserved, and a handshake and a notify port a rank.
    assert sorted(layout(ranks).values()) == list(range(2 + 2 * ranks))


@given(RANKS)
def test_every_rank_has_a_handshake_and_a_notify_port_above_the_first(ranks: int) -> None:
    offsets = layout(ranks)
    for rank in range(1, ranks):
        # vLLM adds the rank to the base it is given.
        assert offsets[f"handshake-{rank}"] == offsets["handshake"] + rank
        assert offsets[f"notify-{rank}"] == offsets["notify"] + rank


@given(RANKS)
def test_names_are_what_kubernetes_takes_for_a_port(ranks: int) -> None:
    assert all(len(name) <= 15 for name in layout(ranks))


@given(RANKS)
def test_no_placeholder_is_part_of_another(ranks: int) -> None:
    texts = [placeholder(name) for name in layout(ranks)]
    assert not [(a, b) for a in texts for b in texts if a != b and a in b]


@pytest.mark.parametrize(
    ("ranks", "ports"),
    [
        (1, {"http": 0, "reserved": 1, "handshake": 2, "notify": 3}),
        (
            2,
            {
                "http": 0,
                "reserved": 1,
                "handshake": 2,
                "handshake-1": 3,
                "notify": 4,
                "notify-1": 5,
            },
        ),
    ],
)
def test_layout(ranks: int, ports: dict[str, int]) -> None:
    assert layout(ranks) == ports

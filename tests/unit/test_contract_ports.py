"""A port block is contiguous, names every socket and can be read back from its names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moriio_operator.contract.ports import PortBlock, block_size

RANKS = st.integers(1, 16)


@given(st.integers(1024, 60_000), RANKS)
def test_the_named_ports_are_the_whole_block_each_once(base: int, ranks: int) -> None:
    block = PortBlock(base=base, ranks=ranks)
    assert sorted(block.named().values()) == list(range(base, base + block.size))


@given(RANKS)
def test_every_rank_has_a_handshake_and_a_notify_port_above_the_first(ranks: int) -> None:
    block = PortBlock(base=20_000, ranks=ranks)
    names = block.named()
    for rank in range(1, ranks):
        # vLLM adds the rank to the base it is given.
        assert names[f"handshake-{rank}"] == block.handshake + rank
        assert names[f"notify-{rank}"] == block.notify + rank


@given(RANKS)
def test_names_are_what_kubernetes_takes_for_a_port(ranks: int) -> None:
    names = PortBlock(base=20_000, ranks=ranks).named()
    assert all(len(name) <= 15 for name in names)
    assert len(names) == block_size(ranks)


@pytest.mark.parametrize(
    ("ranks", "ports"),
    [
        (1, {"http": 20_000, "sentinel": 20_001, "handshake": 20_002, "notify": 20_003}),
        (
            2,
            {
                "http": 20_000,
                "sentinel": 20_001,
                "handshake": 20_002,
                "handshake-1": 20_003,
                "notify": 20_004,
                "notify-1": 20_005,
            },
        ),
    ],
)
def test_layout(ranks: int, ports: dict[str, int]) -> None:
    assert PortBlock(base=20_000, ranks=ranks).named() == ports

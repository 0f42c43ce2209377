"""The layout of an engine's port block: one contiguous range, every socket named.

A rendered template holds offsets and placeholders; each incarnation fills in its numbers.

Source: vLLM 0.33.0, `moriio_common.get_port_offset`: a worker binds handshake and notify at
base + dp_rank_local + tp_rank, and peers dial base + dp * tp_size + tp; both agree while only one
of DP and TP is larger than 1, which holds for every engine of ours.
"""

from __future__ import annotations

# Names of the ports in pods, Services and EndpointSlices: at most 15 characters, as Kubernetes
# wants. A slice carries the number that each pod gave to the name.
HTTP = "http"
RESERVED = "reserved"
HANDSHAKE = "handshake"
NOTIFY = "notify"


def layout(ranks: int) -> dict[str, int]:
    """Give every port of an engine's block by its name, as an offset from the block's first port.

    `http` is the OpenAI API, health and metrics. `reserved` is kept for the peer prober; nothing
    listens there yet. `handshake` and `notify` are one port a rank (ZMQ, unauthenticated); those
    of the ranks above the first carry their number.
    """
    offsets = {HTTP: 0, RESERVED: 1}
    for name, first in ((HANDSHAKE, 2), (NOTIFY, 2 + ranks)):
        for rank in range(ranks):
            offsets[name if rank == 0 else f"{name}-{rank}"] = first + rank
    return offsets


def rank_offset(dp_local: int, tensor_rank: int) -> int:
    """Give what vLLM adds to a base port for a rank: how it binds, and how peers dial it.

    The same in every version from 0.20.0 to 0.33.0 for an engine of one pod; up to 0.27 the data
    parallel rank is the global one, which within one pod is the local one.
    """
    return dp_local + tensor_rank

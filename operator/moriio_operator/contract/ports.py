"""The layout of an engine's port block: one contiguous range, every socket named.

Source: vLLM 0.33.0, `moriio_common.get_port_offset`: a worker binds handshake and notify at
base + dp_rank_local + tp_rank, and peers dial base + dp * tp_size + tp; both agree while only one
of DP and TP is larger than 1, which holds for every engine of ours.
"""

from __future__ import annotations

from dataclasses import dataclass

# Names of the ports in pods, Services and EndpointSlices: at most 15 characters, as Kubernetes
# wants. A slice carries the number that each pod gave to the name.
HTTP = "http"
SENTINEL = "sentinel"
HANDSHAKE = "handshake"
NOTIFY = "notify"


@dataclass(frozen=True, slots=True)
class PortBlock:
    """The ports `base` to `base + size - 1` of one engine incarnation."""

    base: int
    ranks: int

    @property
    def size(self) -> int:
        """Number of ports: http, sentinel, and one handshake and one notify port a rank."""
        return block_size(self.ranks)

    @property
    def http(self) -> int:
        """The OpenAI API, health and metrics."""
        return self.base

    @property
    def sentinel(self) -> int:
        """Kept for the peer prober; nothing listens there yet."""
        return self.base + 1

    @property
    def handshake(self) -> int:
        """First of the handshake ports, one a rank (ZMQ, unauthenticated)."""
        return self.base + 2

    @property
    def notify(self) -> int:
        """First of the notify ports, one a rank (ZMQ, unauthenticated)."""
        return self.base + 2 + self.ranks

    def named(self) -> dict[str, int]:
        """Every port of the block by its name; ranks above the first carry their number."""
        ports = {HTTP: self.http, SENTINEL: self.sentinel}
        for name, first in ((HANDSHAKE, self.handshake), (NOTIFY, self.notify)):
            for rank in range(self.ranks):
                ports[name if rank == 0 else f"{name}-{rank}"] = first + rank
        return ports


def block_size(ranks: int) -> int:
    """Number of ports that an engine of so many ranks needs."""
    return 2 + 2 * ranks

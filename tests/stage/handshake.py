"""What an engine's handshake listeners tell: asked over ZMQ, as a peer would, and without effect.

Source: vLLM 0.32.0, `moriio_engine`: a DEALER sends `get_meta_msg`, and gets two answers, metadata
and a map of layers to memory descriptors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgpack
import zmq

from stage.service import ports

_TIMEOUT_MS = 30_000
_ASK = b"get_meta_msg"


@dataclass(frozen=True, slots=True)
class Told:
    """What one rank told."""

    layers: int
    blocks: int
    # The packed memory descriptors: no two ranks have the same.
    descriptors: bytes


def handshake(pod: dict[str, Any]) -> list[Told]:
    """Ask every rank of an engine, in the order of their ports."""
    numbers = sorted(number for name, number in ports(pod).items() if name.startswith("handshake"))
    return [_ask(pod["status"]["podIP"], number) for number in numbers]


def _ask(host: str, port: int) -> Told:
    with zmq.Context() as context, context.socket(zmq.DEALER) as asking:
        asking.setsockopt(zmq.LINGER, 0)
        asking.setsockopt(zmq.RCVTIMEO, _TIMEOUT_MS)
        asking.connect(f"tcp://{host}:{port}")
        asking.send(_ASK)
        metadata, layers = (asking.recv_multipart()[-1] for _ in range(2))
    told = msgpack.unpackb(metadata, raw=True, strict_map_key=False)
    described = msgpack.unpackb(layers, raw=True, strict_map_key=False)
    return Told(len(described), int(told[b"num_blocks"]), layers)

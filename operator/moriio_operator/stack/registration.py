"""What vllm-router's discovery takes of an engine, whatever its stack: one msgpack map per frame.

Source: vllm-router 0.1.17. The router keys engines by `http_address` and role, learns the mode from
the first valid message, and pins it for the life of its process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict

import msgpack

from moriio_operator.facts.terms import Mode, Role


class Registration(TypedDict):
    """What the router wants to know of an engine."""

    type: str
    http_address: str
    zmq_address: str
    dp_size: int
    tp_size: int
    transfer_mode: str


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An engine as its EndpointSlice has it: an IPv4 address, and port numbers by name."""

    role: Role
    mode: Mode
    host: str
    ports: Mapping[str, int]
    tensor: int
    data: int = 1


def encode(message: Registration) -> bytes:
    """Give the bytes on the wire."""
    encoded: bytes = msgpack.packb(message)
    return encoded

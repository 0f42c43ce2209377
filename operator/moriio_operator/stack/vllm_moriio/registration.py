"""The router's registration message: one msgpack map an engine, in one ZMQ frame.

Source: vllm-router 0.1.17 and vLLM 0.32.0's heartbeat. The router keys engines by `http_address`
and role, learns the mode from the first valid message, and pins it for the life of its process.
"""

from __future__ import annotations

from typing import TypedDict

import msgpack

from moriio_operator.facts.requests import zmq_address
from moriio_operator.facts.terms import Mode, Role

_TYPES = {Role.PREFILL: "P", Role.DECODE: "D"}
_MODES = {Mode.READ: "READ", Mode.WRITE: "WRITE"}


class Registration(TypedDict):
    """What the router wants to know of an engine."""

    type: str
    http_address: str
    zmq_address: str
    dp_size: int
    tp_size: int
    transfer_mode: str


def registration(
    role: Role,
    mode: Mode,
    *,
    host: str,
    http: int,
    handshake: int,
    notify: int,
    tensor: int,
    data: int = 1,
) -> Registration:
    """Describe one engine; `host` is an IPv4 address, `tensor` and `data` its parallel sizes.

    Of an engine with data parallel ranks the router makes as many targets, and sends the rank that
    it chose with each request.
    """
    return Registration(
        type=_TYPES[role],
        http_address=f"{host}:{http}",
        zmq_address=zmq_address(host, handshake, notify),
        dp_size=data,
        tp_size=tensor,
        transfer_mode=_MODES[mode],
    )


def handshake_address(message: Registration) -> str:
    """Give where the first rank of a registered engine answers handshakes, as HOST:PORT."""
    told = dict(part.split(":", 1) for part in message["zmq_address"].split(","))
    return f"{told['host']}:{told['handshake']}"


def encode(message: Registration) -> bytes:
    """Give the bytes on the wire."""
    encoded: bytes = msgpack.packb(message)
    return encoded

"""What the registrar sends of an engine of vLLM and MoRIIO: what vLLM's own heartbeat would.

Source: vLLM 0.32.0's heartbeat.
"""

from __future__ import annotations

from moriio_operator.facts.router import zmq_address
from moriio_operator.facts.terms import Mode, Role
from moriio_operator.stack.registration import Endpoint, Registration
from moriio_operator.stack.vllm_moriio.ports import HANDSHAKE, HTTP, NOTIFY

_TYPES = {Role.PREFILL: "P", Role.DECODE: "D"}
_MODES = {Mode.READ: "READ", Mode.WRITE: "WRITE"}


def of_endpoint(engine: Endpoint) -> Registration | None:
    """Describe an engine by its endpoint; None if that lacks a port that peers need."""
    if not {HTTP, HANDSHAKE, NOTIFY} <= engine.ports.keys():
        return None
    return registration(
        engine.role,
        engine.mode,
        host=engine.host,
        http=engine.ports[HTTP],
        handshake=engine.ports[HANDSHAKE],
        notify=engine.ports[NOTIFY],
        tensor=engine.tensor,
        data=engine.data,
    )


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
    parts = dict(part.split(":", 1) for part in message["zmq_address"].split(","))
    return f"{parts['host']}:{parts['handshake']}"

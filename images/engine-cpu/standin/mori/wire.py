"""The bytes between two engines: a request, the payload, a reply, on a TCP connection.

    request   operation, region id, key, number of segments; offset and size of each
    WRITE     payload follows the request; reply ends it
    READ      reply comes first; payload follows it when the reply is SUCCESS
    reply     status code, length of a text; the text

A refused WRITE still carries its payload, which the target reads and drops, so that the
connection stays in step.
"""

import enum
import socket
import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mori.kinds import StatusCode
from mori.memory import Segment

_REQUEST = struct.Struct("!BQQI")
_SEGMENT = struct.Struct("!QQ")
_REPLY = struct.Struct("!II")
# One KV block of every layer is far below; more is a peer that speaks something else.
_MOST_SEGMENTS = 1 << 20


class Operation(enum.IntEnum):
    """What a transfer does to the target's memory."""

    READ = 1
    WRITE = 2


class Request(NamedTuple):
    """A one-sided access to a target's region."""

    operation: Operation
    region_id: int
    rkey: int
    segments: Sequence[Segment]


def receive_into(connection: socket.socket, target: memoryview) -> None:
    """Fill `target` from the connection."""
    while len(target):
        count = connection.recv_into(target)
        if count == 0:
            raise ConnectionError("the peer closed the connection")
        target = target[count:]


def _receive(connection: socket.socket, size: int) -> bytes:
    buffer = bytearray(size)
    receive_into(connection, memoryview(buffer))
    return bytes(buffer)


def receive_all(connection: socket.socket, targets: Iterable[memoryview]) -> None:
    """Fill several runs of bytes, in order."""
    for target in targets:
        receive_into(connection, target)


def send_all(connection: socket.socket, sources: Iterable[memoryview | bytes]) -> None:
    """Send several runs of bytes, in order."""
    for source in sources:
        connection.sendall(source)


def drop_payload(connection: socket.socket, segments: Iterable[Segment]) -> None:
    """Read a refused payload and forget it."""
    piece = memoryview(bytearray(1 << 16))
    for _, size in segments:
        for start in range(0, size, len(piece)):
            receive_into(connection, piece[: min(len(piece), size - start)])


def send_request(connection: socket.socket, request: Request) -> None:
    """Send a request, without its payload."""
    head = _REQUEST.pack(request.operation, request.region_id, request.rkey, len(request.segments))
    connection.sendall(head + b"".join(_SEGMENT.pack(*segment) for segment in request.segments))


def receive_request(connection: socket.socket) -> Request:
    """Read a request, without its payload."""
    operation, region_id, rkey, count = _REQUEST.unpack(_receive(connection, _REQUEST.size))
    if count > _MOST_SEGMENTS:
        raise ConnectionError(f"the peer asks for {count} segments")
    packed = _receive(connection, count * _SEGMENT.size)
    segments = [Segment(*numbers) for numbers in _SEGMENT.iter_unpack(packed)]
    return Request(Operation(operation), region_id, rkey, segments)


def send_reply(connection: socket.socket, code: StatusCode, text: str) -> None:
    """Tell the initiator how its request went."""
    said = text.encode()
    connection.sendall(_REPLY.pack(code, len(said)) + said)


def receive_reply(connection: socket.socket) -> tuple[StatusCode, str]:
    """Read how a request went."""
    code, length = _REPLY.unpack(_receive(connection, _REPLY.size))
    return StatusCode(code), _receive(connection, length).decode()

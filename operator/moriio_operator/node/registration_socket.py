"""The registration socket to the router: sends, and knows whether it is connected.

A DEALER as vLLM's own heartbeat is, but with ZMQ heartbeats, so a peer that vanished without a
word is noticed, and queueing nothing while there is no connection: a router that comes back must
not be fed registrations of the past.
"""

from __future__ import annotations

import zmq
import zmq.asyncio
from zmq.utils.monitor import parse_monitor_message

from moriio_operator.stack.registration import Registration, encode

_UP = zmq.Event.HANDSHAKE_SUCCEEDED
_DOWN = {zmq.Event.DISCONNECTED, zmq.Event.CLOSED, zmq.Event.CONNECT_RETRIED}


class RegistrationSocket:
    """One DEALER socket to one router."""

    def __init__(self, address: str) -> None:
        self._context = zmq.asyncio.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.IMMEDIATE, 1)
        self._socket.setsockopt(zmq.HEARTBEAT_IVL, 1000)
        self._socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, 3000)
        self._socket.setsockopt(zmq.RECONNECT_IVL, 100)
        # A backlog of stale registrations is worth nothing; a beat comes each second.
        self._socket.setsockopt(zmq.SNDHWM, 4096)
        self._monitor = self._socket.get_monitor_socket()
        self._socket.connect(f"tcp://{address}")
        self.connected = False

    async def watch(self) -> None:
        """Follow the connection's state until cancelled."""
        while True:
            event = parse_monitor_message(await self._monitor.recv_multipart())["event"]
            if event == _UP:
                self.connected = True
            elif event in _DOWN:
                self.connected = False

    async def send(self, messages: list[Registration]) -> int:
        """Send registrations; give how many went out before the socket would block."""
        sent = 0
        for message in messages:
            try:
                await self._socket.send(encode(message), zmq.DONTWAIT)
            except zmq.Again:
                break
            sent += 1
        return sent

    def close(self) -> None:
        """Close at once, dropping what is not sent."""
        self._socket.disable_monitor()
        self._monitor.close(0)
        self._socket.close(0)
        self._context.term()

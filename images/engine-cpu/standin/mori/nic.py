"""The target's side: a TCP listener whose threads play the NIC.

It copies between the wire and the registered regions by itself; the application in this process
neither sees a transfer nor takes part in it.
"""

import contextlib
import socket
import socketserver
import threading
from typing import TYPE_CHECKING

from mori import wire
from mori.kinds import StatusCode

if TYPE_CHECKING:
    from mori.memory import Regions


class Nic(socketserver.ThreadingTCPServer):
    """Serves the regions of one engine at the engine's address."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, host: str, port: int, regions: "Regions") -> None:
        super().__init__((host, port), _Connection)
        self.regions = regions
        self._open: set[socket.socket] = set()
        # It looks for shutdown() at this interval, not for connections.
        threading.Thread(
            target=self.serve_forever, args=(0.05,), daemon=True, name="mori-nic"
        ).start()

    @property
    def port(self) -> int:
        """Port that was bound: the one asked for, or the kernel's choice for port 0."""
        return int(self.server_address[1])

    def process_request_thread(self, request: object, client_address: object) -> None:
        assert isinstance(request, socket.socket)
        self._open.add(request)
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._open.discard(request)

    def close(self) -> None:
        """Stop as a process that ends does: the listener and every connection close."""
        self.shutdown()
        self.server_close()
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Connection(socketserver.BaseRequestHandler):
    """Requests of one peer's session, one after the other."""

    server: Nic

    def handle(self) -> None:
        connection: socket.socket = self.request
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # The peer has left, or speaks something else: neither is this process's trouble.
        with contextlib.suppress(OSError, ValueError):
            while True:
                self._serve(connection, wire.receive_request(connection))

    def _serve(self, connection: socket.socket, request: wire.Request) -> None:
        regions = self.server.regions
        refusal = regions.refusal(request.region_id, request.rkey, request.segments)
        if refusal:
            if request.operation is wire.Operation.WRITE:
                wire.drop_payload(connection, request.segments)
            wire.send_reply(connection, StatusCode.ERR_RDMA_OP, refusal)
            return
        memory = regions.views(request.region_id, request.segments)
        if request.operation is wire.Operation.WRITE:
            wire.receive_all(connection, memory)
            wire.send_reply(connection, StatusCode.SUCCESS, "")
        else:
            wire.send_reply(connection, StatusCode.SUCCESS, "")
            wire.send_all(connection, memory)

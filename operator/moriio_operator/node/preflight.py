"""The preflight: tries, on the node itself, what an engine would only hang for the lack of.

vLLM binds its handshake ports in a thread; one that is taken ends the thread, and the engine waits
for it for ever (vLLM 0.33.0, `moriio_engine`). On the host network any process of the node may hold
a port, and no scheduler knows. So this binds each port of the block, and lets it go.
"""

from __future__ import annotations

import errno
import socket
import sys
from collections.abc import Sequence

# The text that vLLM's own log has for it, so that one signature knows both.
_TAKEN = "Address already in use"


def taken(ports: Sequence[int]) -> list[int]:
    """Give the ports that a process of this node listens on."""
    return [port for port in ports if _is_taken(port)]


def run(ports: Sequence[int]) -> int:
    """Try the ports; give the exit code, and say on the log what is taken."""
    found = taken(ports)
    if not found:
        return 0
    numbers = ", ".join(map(str, found))
    print(f"{_TAKEN}: another process of this node listens on port {numbers}", file=sys.stderr)  # noqa: T201 - the pod's last words
    return errno.EADDRINUSE


def _is_taken(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tried:
        # As vLLM and ZMQ bind: what an earlier engine's connections left behind is no obstacle.
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("0.0.0.0", port))  # noqa: S104 - the engine binds all addresses
            tried.listen(1)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return True
            raise
    return False

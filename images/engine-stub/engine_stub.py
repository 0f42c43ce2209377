"""An engine stub: accepts `vllm serve` arguments, binds the given ports, answers HTTP.

It binds handshake and notify as the connector does, so it crashes on a port conflict. It can also
fail at once: `--stub-exit CODE` with `--stub-last-words TEXT`.
"""

import argparse
import http.server
import json
import os
import signal
import socket
import sys


def parse() -> argparse.Namespace:
    """Read the arguments that the stub uses; all others of vLLM's command line are ignored."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--kv-transfer-config", type=json.loads, default={})
    # Instead of the connector's ports: a single port, as an engine with another connector may have.
    parser.add_argument("--peer-port", type=int)
    parser.add_argument("--tensor-parallel-size", type=int, default=1)
    parser.add_argument("--stub-exit", type=int)
    parser.add_argument("--stub-last-words", default="")
    return parser.parse_known_args()[0]


class Handler(http.server.BaseHTTPRequestHandler):
    """Health, a version that is not one of vLLM's, and an answer that names the pod."""

    def do_GET(self) -> None:
        """Answer health checks and requests for the version."""
        answers = {"/health": b"{}", "/version": b'{"version": "stub"}'}
        self._answer(200 if self.path in answers else 404, answers.get(self.path, b"{}"))

    def do_POST(self) -> None:
        """Answer every completion with the pod's name."""
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self._answer(200, json.dumps({"served_by": socket.gethostname()}).encode())

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing: the end of the log is the termination message."""


def bind(first: int, ranks: int) -> list[socket.socket]:
    """Hold one port per rank, as the connector's listeners do."""
    return [socket.create_server(("0.0.0.0", first + rank)) for rank in range(ranks)]


def listeners(options: argparse.Namespace) -> list[list[socket.socket]]:
    """Hold the ports that peers dial."""
    if options.peer_port is not None:
        return [bind(options.peer_port, 1)]
    extra = options.kv_transfer_config["kv_connector_extra_config"]
    ranks = options.tensor_parallel_size
    return [bind(extra[key], ranks) for key in ("handshake_port", "notify_port")]


def main() -> None:
    """Serve until SIGTERM."""
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    if options.stub_exit is not None:
        print(options.stub_last_words, file=sys.stderr, flush=True)
        sys.exit(options.stub_exit)
    held = listeners(options)
    server = http.server.ThreadingHTTPServer(("0.0.0.0", options.port), Handler)
    print("serving", options.port, len(held), flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()

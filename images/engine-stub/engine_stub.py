"""An engine stub: takes `vllm serve` arguments, binds the ports that it is given, answers HTTP.

It binds handshake and notify as the connector does, so a clash of ports ends it, and it can be told
to fail: `--stub-exit CODE` with `--stub-last-words TEXT`, at once or, with `--stub-exit-file PATH`,
as soon as that file is there.
"""

import argparse
import http.server
import json
import os
import signal
import socket
import sys
import threading
import time


def parse() -> argparse.Namespace:
    """Read what the stub cares about; everything else of vLLM's command line is let pass."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--kv-transfer-config", type=json.loads, required=True)
    parser.add_argument("--tensor-parallel-size", type=int, default=1)
    parser.add_argument("--stub-exit", type=int)
    parser.add_argument("--stub-exit-file")
    parser.add_argument("--stub-last-words", default="")
    return parser.parse_known_args()[0]


class Handler(http.server.BaseHTTPRequestHandler):
    """Health, and an answer that names the pod."""

    def do_GET(self) -> None:
        """Answer health checks."""
        self._answer(200 if self.path == "/health" else 404, b"{}")

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
        """Keep quiet: the log's end is the termination message."""


def bind(first: int, ranks: int) -> list[socket.socket]:
    """Hold one port a rank, as the connector's listeners do."""
    return [socket.create_server(("0.0.0.0", first + rank)) for rank in range(ranks)]


def end_when_told(options: argparse.Namespace) -> None:
    """End the process the way that the options say, with last words on standard error."""
    if options.stub_exit is None:
        return
    while options.stub_exit_file and not os.path.exists(options.stub_exit_file):
        time.sleep(0.1)
    print(options.stub_last_words, file=sys.stderr, flush=True)
    os._exit(options.stub_exit)


def main() -> None:
    """Serve until SIGTERM."""
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    if options.stub_exit is not None and not options.stub_exit_file:
        end_when_told(options)
    extra = options.kv_transfer_config["kv_connector_extra_config"]
    held = [
        bind(extra[key], options.tensor_parallel_size) for key in ("handshake_port", "notify_port")
    ]
    threading.Thread(target=end_when_told, args=(options,), daemon=True).start()
    server = http.server.ThreadingHTTPServer(("0.0.0.0", options.port), Handler)
    print("serving", options.port, len(held), flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()

"""The API server asked over a connection that is kept, and made anew when it has ended."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from bed.errors import BedError
from bed.rest import Rest


class Handler(BaseHTTPRequestHandler):
    """Answers each path in its way, and counts connections."""

    protocol_version = "HTTP/1.1"
    connections = 0

    def setup(self) -> None:
        type(self).connections += 1
        super().setup()

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._answer(200, {"path": self.path})

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        sent = json.loads(self.rfile.read(length))
        if sent == "last":
            # Answered, and then the connection ends without a word.
            self._answer(200, sent)
            self.close_connection = True
        else:
            self._answer(422, {"message": f"{sent} is invalid"})

    def _answer(self, status: int, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[Rest]:
    key, certificate = tmp_path / "key", tmp_path / "crt"
    subject = ("-subj", "/CN=server", "-addext", "subjectAltName=IP:127.0.0.1")
    made = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
    files = ("-nodes", "-keyout", str(key), "-out", str(certificate))
    subprocess.run([*made, *subject, *files], check=True, capture_output=True)
    Handler.connections = 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()

    def data(file: Path) -> str:
        return base64.b64encode(file.read_bytes()).decode()

    cluster = {
        "server": f"https://127.0.0.1:{server.server_port}",
        "certificate-authority-data": data(certificate),
    }
    user = {"client-certificate-data": data(certificate), "client-key-data": data(key)}
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        json.dumps({"clusters": [{"cluster": cluster}], "users": [{"user": user}]})
    )
    asked = Rest(kubeconfig)
    yield asked
    asked.close()
    server.shutdown()
    thread.join()
    server.server_close()


def test_requests_share_one_connection(rest: Rest) -> None:
    assert [rest.get(path) for path in ("/a", "/b?c")] == [{"path": "/a"}, {"path": "/b?c"}]
    assert Handler.connections == 1


def test_a_refusal_is_an_error_with_the_servers_message(rest: Rest) -> None:
    with pytest.raises(BedError, match=r"^POST /a: 422: it is invalid$"):
        rest.ask("POST", "/a", "it")
    assert rest.get("/a") == {"path": "/a"}
    assert Handler.connections == 1


def test_a_connection_that_has_ended_is_made_anew(rest: Rest) -> None:
    assert rest.ask("POST", "/a", "last") == "last"
    assert rest.get("/b") == {"path": "/b"}
    assert Handler.connections == 2

"""The API server asked over HTTPS as the cluster's admin: what tests ask again and again.

A kubectl process costs 80 ms of a processor, a request over an open connection two.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bed.errors import BedError

_TIMEOUT_S = 60
_BROKEN = (OSError, http.client.HTTPException)


class Rest:
    """One connection to the API server, made when it is first needed and after it broke."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self._connection: http.client.HTTPSConnection | None = None

    def get(self, path: str) -> Any:
        """Read an object or a list."""
        return self.ask("GET", path)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Send one request, as JSON; an answer of 400 and more is a BedError with its message."""
        content = None if body is None else json.dumps(body)
        if self._connection is not None:
            # One that was kept may have ended since: the API server was started anew, or it closed
            # what was idle. It has not seen a request that came too late for that.
            with suppress(*_BROKEN):
                return self._exchange(self._connection, method, path, content)
        return self._exchange(self._connect(), method, path, content)

    def _exchange(
        self, connection: http.client.HTTPSConnection, method: str, path: str, content: str | None
    ) -> Any:
        try:
            connection.request(method, path, content, {"Content-Type": "application/json"})
            response = connection.getresponse()
            answer = response.read()
        except _BROKEN:
            self.close()
            raise
        if response.status >= 400:
            raise BedError(f"{method} {path}: {response.status}: {_message(answer)}")
        return json.loads(answer)

    def close(self) -> None:
        """End the connection, if there is one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self) -> http.client.HTTPSConnection:
        # A kubeconfig of the bed has one cluster and one user, with all that they need in it.
        config = json.loads(self._kubeconfig.read_text())
        server = urlsplit(config["clusters"][0]["cluster"]["server"])
        assert server.hostname is not None
        self._connection = http.client.HTTPSConnection(
            server.hostname, server.port, timeout=_TIMEOUT_S, context=_tls(config)
        )
        return self._connection


def _tls(config: dict[str, Any]) -> ssl.SSLContext:
    def text(holder: dict[str, Any], key: str) -> str:
        return base64.b64decode(holder[f"{key}-data"]).decode()

    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    context = ssl.create_default_context(cadata=text(cluster, "certificate-authority"))
    # Python takes a certificate and its key from files only.
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as pair:
        pair.write(text(user, "client-certificate") + text(user, "client-key"))
        pair.flush()
        context.load_cert_chain(pair.name)
    return context


def _message(answer: bytes) -> str:
    try:
        return str(json.loads(answer)["message"])
    except (ValueError, KeyError, TypeError):
        return answer.decode(errors="replace")

"""The API server asked directly, by who holds a kubeconfig: what tests do beside the operator.

Dictionaries in and out, and no retry: an answer that a test does not expect is its failure.
"""

from __future__ import annotations

import base64
import json
import ssl
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from moriio_operator.kube.kinds import Kind

Json = dict[str, Any]

_TIMEOUT = aiohttp.ClientTimeout(total=60)
# An event is one line; of a pod it may be long.
_LINE_BYTES = 2**22


class RefusedError(Exception):
    """The API server answered with an error."""

    def __init__(self, status: int, body: Any) -> None:
        message = body.get("message") if isinstance(body, dict) else body
        super().__init__(f"{status}: {message}")
        self.status = status


@dataclass(frozen=True, slots=True)
class Api:
    """One identity's connections to an API server."""

    server: str
    session: aiohttp.ClientSession

    @classmethod
    @asynccontextmanager
    async def connected(cls, kubeconfig: Path) -> AsyncIterator[Api]:
        """Connect as the user of a kubeconfig's current context, by certificate or token."""
        cluster, user = _current(kubeconfig)
        headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
        tls = _tls(cluster, user) if cluster["server"].startswith("https:") else True
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=tls, limit=0),
            headers=headers,
            timeout=_TIMEOUT,
            read_bufsize=_LINE_BYTES,
        ) as session:
            yield cls(cluster["server"].rstrip("/"), session)

    async def ask(self, method: str, path: str, body: Any = None, *, patch: str = "") -> Any:
        """Make one request; `patch` names the kind of patch.

        Raises:
            RefusedError: the answer is an error.
        """
        data = None if body is None else json.dumps(body)
        headers = {"Content-Type": f"application/{patch}json"}
        async with self.session.request(
            method, self.server + path, data=data, headers=headers
        ) as response:
            answer = json.loads(await response.read())
        if response.status >= 400:
            raise RefusedError(response.status, answer)
        return answer

    async def find(self, kind: Kind, namespace: str, name: str) -> Json | None:
        """Read an object; None when it is not there."""
        try:
            found: Json = await self.ask("GET", kind.path(namespace, name))
        except RefusedError as error:
            if error.status == 404:
                return None
            raise
        return found

    async def get(self, kind: Kind, namespace: str, name: str) -> Json:
        """Read an object that is there."""
        found: Json = await self.ask("GET", kind.path(namespace, name))
        return found

    async def list(self, kind: Kind, namespace: str, **labels: str) -> list[Json]:
        """Read all objects of a kind that carry labels (`a_b` stands for `moriio.dev/a-b`)."""
        wanted = {f"moriio.dev/{key.replace('_', '-')}": value for key, value in labels.items()}
        found = await self.ask("GET", kind.path(namespace))
        items: list[Json] = found["items"]
        return [i for i in items if wanted.items() <= (i["metadata"].get("labels") or {}).items()]

    async def create(self, kind: Kind, obj: Json) -> Json:
        """Create an object."""
        made: Json = await self.ask("POST", kind.path(obj["metadata"].get("namespace")), obj)
        return made

    async def merge(self, kind: Kind, namespace: str, name: str, change: Json) -> Json:
        """Lay a change over an object."""
        path = kind.path(namespace, name)
        changed: Json = await self.ask("PATCH", path, change, patch="merge-patch+")
        return changed

    async def delete(self, kind: Kind, namespace: str, name: str) -> None:
        """Delete an object, at once where its kind allows that."""
        await self.ask("DELETE", kind.path(namespace, name))


def _current(kubeconfig: Path) -> tuple[Json, Json]:
    config: Json = yaml.safe_load(kubeconfig.read_text())

    def named(part: str, name: str) -> Json:
        found: Json = next(e[part] for e in config[f"{part}s"] if e["name"] == name)
        return found

    context = named("context", config["current-context"])
    return named("cluster", context["cluster"]), named("user", context["user"])


def _tls(cluster: Json, user: Json) -> ssl.SSLContext:
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=authority)
    if "client-certificate-data" in user:
        # The ssl module takes certificate and key from files only.
        with tempfile.NamedTemporaryFile(suffix=".pem") as file:
            for part in ("client-certificate-data", "client-key-data"):
                file.write(base64.b64decode(user[part]) + b"\n")
            file.flush()
            context.load_cert_chain(file.name)
    return context

"""A request to the Kubernetes API as the API server sees it, and what it may be answered."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_BY_METHOD = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True, slots=True)
class Call:
    """One request. What is not about a resource, discovery above all, has resource ''."""

    verb: str
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    dry_run: bool = False
    body: Any = field(default=None, compare=False, repr=False)

    @property
    def writes(self) -> bool:
        """Whether it may change something that is stored."""
        return self.verb in _WRITES and not self.dry_run


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and what the API server answered; status 0: nothing, or nothing was asked of it."""

    call: Call
    status: int
    answer: Any
    # Loop time in seconds.
    began: float
    ended: float


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error answer in place of the API server's."""

    status: int
    reason: str

    def body(self) -> dict[str, Any]:
        """Give the answer, worded as the API server does."""
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "reason": self.reason,
            "message": f"{self.reason}, by the test",
            "code": self.status,
        }


EXPIRED = Refusal(410, "Expired")
BROKEN = Refusal(500, "InternalError")


def read(method: str, path: str, query: Mapping[str, str], data: bytes) -> Call:
    """Read a request; the name of what is created stands in its body."""
    parts = path.strip("/").split("/")
    # Below /api/VERSION and /apis/GROUP/VERSION.
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces":
        namespace, rest = rest[1], rest[2:]
    resource, name, subresource = (*rest, "", "", "")[:3]
    body = _body(data)
    if method == "POST" and not name and isinstance(body, dict):
        name = body.get("metadata", {}).get("name", "")
    return Call(
        verb=_verb(method, resource, name, watches=query.get("watch") in ("true", "1")),
        resource=resource,
        subresource=subresource,
        namespace=namespace,
        name=name,
        dry_run="dryRun" in query,
        body=body,
    )


def _verb(method: str, resource: str, name: str, *, watches: bool) -> str:
    if method == "DELETE":
        return "delete" if name else "deletecollection"
    if method != "GET":
        return _BY_METHOD[method]
    if watches:
        return "watch"
    return "list" if resource and not name else "get"


def _body(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return None

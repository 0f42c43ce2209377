"""The API server's audit log: who asked for what, and when."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from stage.installation import NAMESPACE, RELEASE

OPERATOR_USER = f"system:serviceaccount:{NAMESPACE}:{RELEASE}"
_RECEIVED = re.compile(r'"requestReceivedTimestamp": ?"([^"]+)"')
_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True, slots=True)
class Call:
    """One request that was answered."""

    user: str
    # Where the request came from: an address of a pod, or of the host.
    source: str
    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    status: int
    # The authorizer's word. A 403 may also be admission's, as when a namespace goes; and what the
    # server has no room for just then (429, priority and fairness) never comes as far.
    forbidden: bool
    time: datetime

    @property
    def writes(self) -> bool:
        """Whether it may have changed something."""
        return self.verb in _WRITES


def calls(log: Path, *, since: datetime | None = None) -> Iterator[Call]:
    """Read the answered requests about objects, oldest first."""
    # What follows the last line's end is still being written.
    for line in log.read_text().split("\n")[:-1]:
        if since is not None and _received(line) < since:
            continue  # which is most of a long log, and parsing takes its time
        event = json.loads(line)
        reference = event.get("objectRef")
        if event["stage"] != "ResponseComplete" or reference is None:
            continue
        yield Call(
            user=event["user"]["username"],
            source=event.get("sourceIPs", [""])[0],
            verb=event["verb"],
            group=reference.get("apiGroup", ""),
            resource=reference.get("resource", ""),
            subresource=reference.get("subresource", ""),
            namespace=reference.get("namespace", ""),
            name=reference.get("name", ""),
            status=event["responseStatus"]["code"],
            forbidden=event.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid",
            time=datetime.fromisoformat(event["requestReceivedTimestamp"]),
        )


def _received(line: str) -> datetime:
    """Give when a request came in, read off its line."""
    found = _RECEIVED.search(line)
    assert found is not None, line
    return datetime.fromisoformat(found[1])


def looked_at(log: Path, namespace: str, name: str, *, since: datetime) -> bool:
    """Return whether the operator has read a PDDeployment since then, as each pass does first."""
    return any(
        call.user == OPERATOR_USER
        and (call.verb, call.resource) == ("get", "pddeployments")
        and (call.namespace, call.name) == (namespace, name)
        for call in calls(log, since=since)
    )


def now() -> datetime:
    """Give the time as the audit log counts it."""
    return datetime.now(UTC)

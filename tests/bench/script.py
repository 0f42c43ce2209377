"""A record of the operator's calls for one PDDeployment, as a script to play for any other.

A pass begins with a read of the PDDeployment itself, or after a rest; calls of a pass that were
under way at once form a batch. What differs from one PDDeployment to the next is put in when it is
played: its name, its uid, and the version that the pass read, on which a status write depends.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from moriio_operator.api.kinds import PDDEPLOYMENT
from moriio_operator.kube import kinds

from bench.recording import Recorded

# Between two calls of a pass there is only computing.
_REST_S = 0.1


@dataclass(frozen=True, slots=True)
class Pass:
    """The batches of one pass, and when it began after the first one did."""

    after_s: float
    batches: tuple[tuple[Recorded, ...], ...]


def about(calls: Iterable[Recorded], namespace: str, name: str) -> list[Recorded]:
    """Pick the calls that were made for one PDDeployment, when there was no other."""
    return [
        call
        for call in calls
        if f"/namespaces/{namespace}/" in call.path
        and call.verb != "watch"
        and call.kind != kinds.LEASE.kind
        # The resync asks for all of them.
        and not (call.verb == "list" and call.kind == PDDEPLOYMENT.kind)
        and name in call.path + json.dumps([call.query, call.body])
    ]


def passes(calls: Sequence[Recorded]) -> list[Pass]:
    """Cut a record into passes."""
    found: list[list[Recorded]] = []
    ends = 0.0
    for call in calls:
        if not found or _begins(call) or call.began > ends + _REST_S:
            found.append([])
        found[-1].append(call)
        ends = max(ends, call.ended)
    first = calls[0].began
    return [Pass(each[0].began - first, _batches(each)) for each in found]


def merged(due: Sequence[Pass]) -> Pass:
    """Make one pass of several: the last, and of those before it what only they bring about."""
    *missed, last = due
    kept = tuple(
        (call,) for each in missed for batch in each.batches for call in batch if _lasts(call)
    )
    return Pass(last.after_s, (*kept, *last.batches))


def _lasts(call: Recorded) -> bool:
    """Return whether a later pass does not do it over: reads and status writes are done over."""
    return call.method != "GET" and not call.path.endswith("/status")


def _begins(call: Recorded) -> bool:
    return call.verb == "get" and call.kind == PDDEPLOYMENT.kind


def _batches(calls: Sequence[Recorded]) -> tuple[tuple[Recorded, ...], ...]:
    batches: list[list[Recorded]] = []
    ends = 0.0
    for call in calls:
        if call.began < ends:
            batches[-1].append(call)
        else:
            batches.append([call])
        ends = max(ends, call.ended)
    return tuple(map(tuple, batches))


@dataclass(frozen=True, slots=True)
class Casting:
    """Whom a script was recorded for, and whom it is played for."""

    recorded_name: str
    recorded_uid: str
    name: str
    uid: str

    def of(self, call: Recorded, version: str) -> Recorded:
        """Give a call as it is made for the other PDDeployment, read at a version."""
        body: Any = json.loads(self._recast(json.dumps(call.body)))
        # A JSON patch is a list, and names no version.
        if isinstance(body, dict) and "resourceVersion" in body.get("metadata", {}):
            body["metadata"]["resourceVersion"] = version
        query = json.loads(self._recast(json.dumps(call.query)))
        return replace(call, path=self._recast(call.path), query=query, body=body)

    def _recast(self, text: str) -> str:
        return text.replace(self.recorded_uid, self.uid).replace(self.recorded_name, self.name)

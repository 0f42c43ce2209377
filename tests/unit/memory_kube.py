"""A Kubernetes API in memory: enough of it for the operator's passes, with faults on demand.

It knows names, uids, resource versions, label selectors, preconditions and graceful deletion of
pods; it checks no schema and defaults nothing.
"""
# ruff: noqa: ARG002 - the signatures are the real client's

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

from moriio_operator.kube import kinds
from moriio_operator.kube.client import Kube
from moriio_operator.kube.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    InvalidError,
    NotFoundError,
    UnreachableError,
)
from moriio_operator.kube.kinds import Kind, kind_of
from moriio_operator.kube.objects import Object

Place = tuple[str, str]
# Says whether a call is refused: verb and object in, error out.
Refusal = Callable[[str, Object], ApiError | None]


class CrashError(Exception):
    """The operator ends here, before or after a write reached the API server."""


def _copy(obj: Object) -> Object:
    copied: Object = json.loads(json.dumps(obj))
    return copied


class MemoryKube(Kube):
    """The API. `writes` tells what was written, in order, as `verb Kind name`."""

    def __init__(self, *objects: Object) -> None:
        self.objects: dict[Place, Object] = {}
        self.writes: list[str] = []
        self.logs: dict[tuple[str, str, str], str] = {}
        self.refuse: Refusal = lambda _verb, _obj: None
        # What an admission webhook makes of an object that is created.
        self.rewrite: Callable[[Object], Object] = lambda obj: obj
        # Awaited once, before the so many'th write: what others do meanwhile.
        self.meanwhile: tuple[int, Callable[[], Awaitable[None]]] | None = None
        self._version = 0
        self._crash: tuple[int, bool] | None = None
        for obj in objects:
            self.put(obj)

    # What a test does to the world.

    def put(self, obj: Object) -> Object:
        """Store an object as it is, whatever was there."""
        self._version += 1
        stored = _copy(obj)
        metadata = stored["metadata"]
        metadata.setdefault("uid", f"uid-{self._version}")
        if obj["kind"] == "Pod":
            stored.setdefault("status", {"phase": "Pending"})
        metadata["resourceVersion"] = str(self._version)
        self.objects[obj["kind"], metadata["name"]] = stored
        return stored

    def crash_at(self, write: int, *, answered: bool) -> None:
        """End the pass at its so many'th write; unless `answered`, the write itself happens."""
        self._crash = (len(self.writes) + write, answered)

    def crash_no_more(self) -> None:
        """Forget a crash that was not reached."""
        self._crash = None

    def remove(self, kind: str, name: str) -> None:
        """Let an object vanish without a word."""
        self.objects.pop((kind, name), None)

    def of_kind(self, kind: str) -> list[Object]:
        """All objects of a kind, by name."""
        return [obj for (k, _), obj in sorted(self.objects.items()) if k == kind]

    def one(self, kind: str, name: str) -> Object:
        """The object of this name."""
        return self.objects[kind, name]

    # What the operator calls.

    async def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        found = self.objects.get((kind.kind, name))
        return None if found is None else _copy(found)

    async def list(
        self, kind: Kind, namespace: str | None = None, selector: str = "", fields: str = ""
    ) -> tuple[list[Object], str]:
        wanted = dict(part.split("=") for part in selector.split(",") if part)
        found = [
            _copy(obj)
            for obj in self.of_kind(kind.kind)
            if namespace in (None, obj["metadata"]["namespace"])
            and wanted.items() <= (obj["metadata"].get("labels") or {}).items()
            and (not fields or _has_fields(obj, fields))
        ]
        return found, str(self._version)

    async def _let_others(self) -> None:
        if self.meanwhile is not None and self.meanwhile[0] <= len(self.writes):
            act, self.meanwhile = self.meanwhile[1], None
            await act()

    async def create(self, obj: Object, manager: str, *, dry_run: bool = False) -> Object:
        await self._let_others()
        self._check("dry-run" if dry_run else "create", obj)
        if (kind_of(obj).kind, obj["metadata"]["name"]) in self.objects:
            raise AlreadyExistsError(409, "AlreadyExists", "the name is taken")
        admitted = self.rewrite(_copy(obj))
        if dry_run:
            return admitted
        return self._write("create", obj, lambda: self.put(admitted))

    async def apply(
        self,
        obj: Object,
        manager: str,
        subresource: str | None = None,
        *,
        dry_run: bool = False,
    ) -> Object:
        await self._let_others()
        self._check("dry-run" if dry_run else "apply", obj)
        metadata = obj["metadata"]
        live = self.objects.get((obj["kind"], metadata["name"]))
        expected = metadata.get("resourceVersion")
        if subresource is not None and live is None:
            raise NotFoundError(404, "NotFound", "no such object")
        if expected is not None and (live or {}).get("metadata", {})["resourceVersion"] != expected:
            raise ConflictError(409, "Conflict", "the object has been modified")
        uid = metadata.get("uid")
        if uid is not None and (live or {}).get("metadata", {}).get("uid") != uid:
            raise ConflictError(409, "Conflict", "the uid in the object differs")
        if obj["kind"] == "ControllerRevision" and (live or obj)["data"] != obj.get("data"):
            raise InvalidError(422, "Invalid", "data: field is immutable")
        wanted = _applied(live or {}, obj, subresource)
        if live is not None and _same(live, wanted):
            # Checked and not stored: no new version, and no write that a crash could fall on.
            return _copy(live)
        if dry_run:
            return _copy(wanted)
        return self._write("apply", obj, lambda: self.put(wanted))

    async def update(self, obj: Object) -> Object:
        self._check("update", obj)
        metadata = obj["metadata"]
        live = self.objects.get((obj["kind"], metadata["name"]))
        if live is None:
            raise NotFoundError(404, "NotFound", "no such object")
        if live["metadata"]["resourceVersion"] != metadata["resourceVersion"]:
            raise ConflictError(409, "Conflict", "the object has been modified")
        return self._write("update", obj, lambda: self.put(obj))

    async def own(self, kind: Kind, namespace: str, name: str, manager: str) -> None:
        """Take over nothing: fields have no owners here."""

    async def log_tail(self, namespace: str, pod: str, container: str, lines: int) -> str:
        """Give what a test wrote there; as from the API, the last lines only."""
        text = self.logs.get((namespace, pod, container))
        if text is None:
            raise UnreachableError(TimeoutError("the node does not answer"))
        return "\n".join(text.splitlines()[-lines:])

    async def delete(self, kind: Kind, namespace: str, name: str, uid: str) -> None:
        await self._let_others()
        live = self.objects.get((kind.kind, name))
        if live is None:
            return
        if live["metadata"]["uid"] != uid:
            raise ConflictError(409, "Conflict", "the uid in the precondition differs")
        self._check("delete", live)
        self._write("delete", live, lambda: self._let_go(kind, live))

    def _let_go(self, kind: Kind, live: Object) -> Object:
        if kind is not kinds.POD:
            return self.objects.pop((kind.kind, live["metadata"]["name"]))
        # A pod stays until its grace period is over.
        live["metadata"]["deletionTimestamp"] = "2026-05-04T12:00:00Z"
        return live

    def _check(self, verb: str, obj: Object) -> None:
        error = self.refuse(verb, obj)
        if error is not None:
            raise error

    def _write(self, verb: str, obj: Object, act: Callable[[], Object]) -> Object:
        due = self._crash is not None and self._crash[0] <= len(self.writes) + 1
        answered = self._crash is not None and self._crash[1]
        if due:
            self._crash = None
        if due and answered:
            raise CrashError
        self.writes.append(f"{verb} {obj['kind']} {obj['metadata']['name']}")
        made = act()
        if due:
            raise CrashError
        return _copy(made)


def _has_fields(obj: Object, selector: str) -> bool:
    """Judge a field selector as far as anybody uses one."""
    assert selector == "spec.hostNetwork=true"
    return obj["spec"].get("hostNetwork") is True


def _same(live: Object, wanted: Object) -> bool:
    return {**live, "metadata": {}} == {**wanted, "metadata": {}} and all(
        live["metadata"].get(key) == value
        for key, value in wanted["metadata"].items()
        if key != "resourceVersion"
    )


def _applied(live: Object, obj: Object, subresource: str | None) -> Object:
    if subresource is not None:
        return {**live, subresource: obj[subresource]}
    kept = {key: live["metadata"][key] for key in ("uid",) if live}
    # What an apply leaves out it takes away: all of it was ours.
    status = {"status": live["status"]} if "status" in live else {}
    return {**obj, **status, "metadata": {**obj["metadata"], **kept}}

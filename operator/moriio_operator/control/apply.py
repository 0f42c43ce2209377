"""Bring Services, rights, routers and templates to what is desired.

What is missing is created, what differs is applied, what belongs to no living revision is deleted.
A name that is held by an object of another owner is waited for, never adopted: hence `create` and
not server-side apply for what is missing, which would take over a foreign object without a word.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import structlog

from moriio_operator.api import names
from moriio_operator.api.deployment import Owner
from moriio_operator.api.problem import Problem
from moriio_operator.api.reasons import Reason
from moriio_operator.control.child_cache import ChildCache
from moriio_operator.control.observe import World
from moriio_operator.control.queue import Key
from moriio_operator.kube.client import Kube
from moriio_operator.kube.drift import drifted, stamped
from moriio_operator.kube.errors import (
    AdmissionVerdict,
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ForbiddenError,
    admission_verdict,
)
from moriio_operator.kube.kinds import CONTROLLER_REVISION, kind_of
from moriio_operator.kube.objects import Object, controller

log = structlog.get_logger(__name__)

# Awaited before the first write of a pass: fails if the pass is based on a stale reading.
Precondition: TypeAlias = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ChildWriter:
    """Writes children of one PDDeployment, and keeps the cache of children up to date."""

    kube: Kube
    owner: Owner
    cache: ChildCache
    assert_unchanged: Precondition

    @property
    def _key(self) -> Key:
        return Key(self.owner.namespace, self.owner.name)

    async def create(self, child: Object) -> None:
        """Create a child."""
        await self.assert_unchanged()
        self.cache.written(self._key, await self.kube.create(child, names.FIELD_MANAGER))

    async def apply(self, child: Object, live: Object) -> None:
        """Apply a child over the very object that is there."""
        await self.assert_unchanged()
        kind, metadata = kind_of(child), child["metadata"]
        await self.kube.own(kind, metadata["namespace"], metadata["name"], names.FIELD_MANAGER)
        self.cache.written(self._key, await self.kube.apply(over(child, live), names.FIELD_MANAGER))

    async def delete(self, child: Object) -> None:
        """Delete this very child."""
        await self.assert_unchanged()
        metadata = child["metadata"]
        await self.kube.delete(
            kind_of(child), metadata["namespace"], metadata["name"], metadata["uid"]
        )
        self.cache.deleted(self._key, child)


def over(child: Object, live: Object) -> Object:
    """Give what to apply over a live object, and over no other one of its name."""
    # With its uid: should it be another's by now, the API server says so.
    return {**child, "metadata": {**child["metadata"], "uid": live["metadata"]["uid"]}}


def due(world: World, desired: Sequence[Object]) -> list[tuple[Object, Object | None]]:
    """Give the children that must be written, each with the live object, in their order."""
    found = []
    for child in desired:
        marked = stamped(child, names.ANNOTATION_APPLIED)
        live = world.child(child["kind"], child["metadata"]["name"])
        if live is None or _differs(marked, live):
            found.append((marked, live))
    return found


async def apply_children(
    writer: ChildWriter, world: World, desired: Sequence[Object]
) -> list[Problem]:
    """Create what is missing and apply what differs, in their order; stop at what is refused."""
    for child, live in due(world, desired):
        problem = await _write(writer, child, live)
        if problem is not None:
            return [problem]
        log.info("applied", key=writer.owner.key, child=title(child))
    return []


async def prune(
    writer: ChildWriter, world: World, desired: Sequence[Object], spared: Collection[str] = ()
) -> list[Problem]:
    """Delete what is not desired; what cannot be deleted is reported and delays nothing else.

    Children of the revisions that are `spared` stay: they are needed, and nobody can say which they
    are while the templates of their revision are missing.
    """
    problems = []
    wanted = {(child["kind"], child["metadata"]["name"]) for child in desired}
    for child in world.children:
        metadata = child["metadata"]
        if (child["kind"], metadata["name"]) in wanted or metadata.get("deletionTimestamp"):
            continue
        if (metadata.get("labels") or {}).get(names.LABEL_REVISION) in spared:
            continue
        try:
            await writer.delete(child)
        except ApiError as error:
            if admission_verdict(error) is None and not isinstance(error, ForbiddenError):
                raise
            text = f"the API server does not let go of {title(child)}: {error.message}"
            problems.append(Problem(Reason.CHILD_REFUSED, "spec", text))
            continue
        log.info("deleted", key=writer.owner.key, child=title(child))
    return problems


def refusal(child: Object, error: ApiError) -> Problem:
    """Give what admission has against a child.

    Raises:
        ApiError: the error itself, if it is no verdict of admission but trouble of the API server.
    """
    verdict = admission_verdict(error)
    if verdict is None:
        raise error
    failed = verdict is AdmissionVerdict.WEBHOOK_FAILED
    reason = Reason.ADMISSION_FAILED if failed else Reason.CHILD_REFUSED
    return Problem(reason, "spec", f"the API server refuses {title(child)}: {error.message}")


def name_taken(owner: Owner, child: Object, holder: Object) -> Problem | None:
    """Say whose object has the name of a child; None if it is this PDDeployment's own."""
    reference = controller(holder) or {}
    if reference.get("uid") == owner.uid:
        return None
    if (reference.get("kind"), reference.get("name")) == (names.KIND, owner.name):
        text = f"{title(child)} is still there from an earlier PDDeployment of this name: wait"
    else:
        text = (
            f"{title(child)} exists and does not belong to this PDDeployment: delete it, or give "
            "the PDDeployment another name"
        )
    return Problem(Reason.NAME_TAKEN, "metadata.name", text)


def title(obj: Object) -> str:
    """Name an object in messages."""
    return f"{obj['kind']} {obj['metadata']['name']}"


def _differs(child: Object, live: Object) -> bool:
    if child["kind"] != CONTROLLER_REVISION.kind:
        return drifted(child, live)
    # What was rendered stays, and the API server lets nobody change it. Its labels are like others.
    labels = live["metadata"].get("labels") or {}
    return not child["metadata"]["labels"].items() <= labels.items()


async def _write(writer: ChildWriter, child: Object, live: Object | None) -> Problem | None:
    try:
        if live is None:
            return await _create(writer, child)
        await _repair(writer, child, live)
    except ApiError as error:
        return refusal(child, error)
    return None


async def _create(writer: ChildWriter, child: Object) -> Problem | None:
    try:
        await writer.create(child)
    except AlreadyExistsError:
        return await _on_name_conflict(writer, child)
    return None


async def _on_name_conflict(writer: ChildWriter, child: Object) -> Problem | None:
    """Deal with an object that was not among ours and has the name of one."""
    owner, name = writer.owner, child["metadata"]["name"]
    holder = await writer.kube.get(kind_of(child), owner.namespace, name)
    if holder is None:
        raise ConflictError(409, "Conflict", f"{title(child)} is gone again")
    problem = name_taken(owner, child, holder)
    if problem is not None:
        return problem
    # Ours, and somebody took its labels away; or its twin, after an answer that was lost.
    await _repair(writer, child, holder)
    if child["kind"] == CONTROLLER_REVISION.kind:
        # What it holds counts, not what would be rendered now: begin again with that.
        raise ConflictError(409, "Conflict", f"{title(child)} was there already")
    return None


async def _repair(writer: ChildWriter, child: Object, live: Object) -> None:
    if child["kind"] == CONTROLLER_REVISION.kind:
        kept = {key: live[key] for key in ("data", "revision")}
        await writer.apply({**child, **kept}, live)
    elif live.get("roleRef") != child.get("roleRef"):
        # Immutable; it names the chart's release, which an admin may have renamed.
        await writer.delete(live)
        # Should something hold it back, the name is taken: a conflict, and tried again later.
        await writer.create(child)
    else:
        await writer.apply(child, live)

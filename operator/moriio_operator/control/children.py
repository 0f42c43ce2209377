"""Bring Services, rights, routers and templates to what is wished.

What is missing is created, what differs is applied, what is left over is deleted. A name that is
held by an object of another owner is waited for, never adopted: hence `create` and not server-side
apply for what is missing, which would take over a stranger's object without a word.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import structlog

from moriio_operator.api import names
from moriio_operator.api.deployment import Owner
from moriio_operator.api.problem import Problem
from moriio_operator.control.child_cache import Knowledge
from moriio_operator.control.observe import World
from moriio_operator.control.queue import Key
from moriio_operator.kube.client import Kube
from moriio_operator.kube.drift import drifted, stamped
from moriio_operator.kube.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ForbiddenError,
    InvalidError,
)
from moriio_operator.kube.kinds import CONTROLLER_REVISION, kind_of
from moriio_operator.kube.objects import Object
from moriio_operator.kube.owners import controller

log = structlog.get_logger(__name__)

# Awaited before the first write of a pass: fails if the pass is based on a stale reading.
Fence: TypeAlias = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Hands:
    """What a pass writes children with."""

    kube: Kube
    owner: Owner
    knowledge: Knowledge
    fence: Fence

    @property
    def _key(self) -> Key:
        return Key(self.owner.namespace, self.owner.name)

    async def create(self, child: Object) -> None:
        """Create a child."""
        await self.fence()
        self.knowledge.written(self._key, await self.kube.create(child, names.FIELD_MANAGER))

    async def apply(self, child: Object, live: Object) -> None:
        """Apply a child over the very object that is there."""
        await self.fence()
        kind, metadata = kind_of(child), child["metadata"]
        await self.kube.own(kind, metadata["namespace"], metadata["name"], names.FIELD_MANAGER)
        # With its uid: should it be another's by now, the API server says so.
        this = {**child, "metadata": {**metadata, "uid": live["metadata"]["uid"]}}
        self.knowledge.written(self._key, await self.kube.apply(this, names.FIELD_MANAGER))

    async def delete(self, child: Object) -> None:
        """Delete this very child."""
        await self.fence()
        metadata = child["metadata"]
        await self.kube.delete(
            kind_of(child), metadata["namespace"], metadata["name"], metadata["uid"]
        )
        self.knowledge.deleted(self._key, child)


async def bring_about(hands: Hands, world: World, desired: Sequence[Object]) -> list[Problem]:
    """Create what is missing and apply what differs, in their order; stop at what is refused."""
    for child in (stamped(child, names.ANNOTATION_APPLIED) for child in desired):
        live = world.child(child["kind"], child["metadata"]["name"])
        if live is not None and not _differs(child, live):
            continue
        problem = await _write(hands, child, live)
        if problem is not None:
            return [problem]
        log.info("applied", key=hands.owner.key, child=_title(child))
    return []


async def prune(hands: Hands, world: World, desired: Sequence[Object]) -> list[Problem]:
    """Delete what is not wished; what cannot be deleted is told and keeps nothing else waiting."""
    problems = []
    wanted = {(child["kind"], child["metadata"]["name"]) for child in desired}
    for child in world.children:
        metadata = child["metadata"]
        if (child["kind"], metadata["name"]) in wanted or metadata.get("deletionTimestamp"):
            continue
        try:
            await hands.delete(child)
        except (ForbiddenError, InvalidError) as error:
            text = f"the API server does not let go of {_title(child)}: {error.message}"
            problems.append(Problem("ChildRefused", "spec", text))
            continue
        log.info("deleted", key=hands.owner.key, child=_title(child))
    return problems


def _differs(child: Object, live: Object) -> bool:
    if child["kind"] != CONTROLLER_REVISION.kind:
        return drifted(child, live)
    # What was rendered stays, and the API server lets nobody change it. Its labels are like others.
    labels = live["metadata"].get("labels") or {}
    return not child["metadata"]["labels"].items() <= labels.items()


async def _write(hands: Hands, child: Object, live: Object | None) -> Problem | None:
    try:
        if live is None:
            return await _create(hands, child)
        await _mend(hands, child, live)
    except (InvalidError, ForbiddenError) as error:
        return _refusal("ChildRefused", child, error)
    except ApiError as error:
        if error.status != 500:
            raise
        # An admission webhook that does not answer.
        return _refusal("AdmissionFailed", child, error)
    return None


def _refusal(reason: str, child: Object, error: ApiError) -> Problem:
    return Problem(reason, "spec", f"the API server refuses {_title(child)}: {error.message}")


async def _create(hands: Hands, child: Object) -> Problem | None:
    try:
        await hands.create(child)
    except AlreadyExistsError:
        return await _met(hands, child)
    return None


async def _met(hands: Hands, child: Object) -> Problem | None:
    """Deal with an object that was not among ours and has the name of one."""
    owner, name = hands.owner, child["metadata"]["name"]
    holder = await hands.kube.get(kind_of(child), owner.namespace, name)
    if holder is None:
        raise ConflictError(409, "Conflict", f"{_title(child)} is gone again")
    reference = controller(holder) or {}
    if reference.get("uid") == owner.uid:
        # Ours, and somebody took its labels away; or its twin, after an answer that was lost.
        await _mend(hands, child, holder)
        if child["kind"] == CONTROLLER_REVISION.kind:
            # What it holds counts, not what would be rendered now: begin again with that.
            raise ConflictError(409, "Conflict", f"{_title(child)} was there already")
        return None
    if (reference.get("kind"), reference.get("name")) == (names.KIND, owner.name):
        text = f"{_title(child)} is still there from an earlier PDDeployment of this name: wait"
    else:
        text = (
            f"{_title(child)} exists and does not belong to this PDDeployment: delete it, or give "
            "the PDDeployment another name"
        )
    return Problem("NameTaken", "metadata.name", text)


async def _mend(hands: Hands, child: Object, live: Object) -> None:
    if child["kind"] == CONTROLLER_REVISION.kind:
        kept = {key: live[key] for key in ("data", "revision")}
        await hands.apply({**child, **kept}, live)
    elif live.get("roleRef") != child.get("roleRef"):
        # Immutable; it names the chart's release, which an admin may have renamed.
        await hands.delete(live)
        # Should something hold it back, the name is taken: a conflict, and tried again later.
        await hands.create(child)
    else:
        await hands.apply(child, live)


def _title(obj: Object) -> str:
    return f"{obj['kind']} {obj['metadata']['name']}"

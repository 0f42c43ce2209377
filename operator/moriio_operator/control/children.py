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
from moriio_operator.build.metadata import controller
from moriio_operator.control.knowledge import Knowledge
from moriio_operator.control.observe import World
from moriio_operator.control.queue import Key
from moriio_operator.kube.client import Kube, Object
from moriio_operator.kube.drift import drifted, stamped
from moriio_operator.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    InvalidError,
)
from moriio_operator.kube.kinds import CONTROLLER_REVISION, kind_of
from moriio_operator.plan.problem import Problem

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

    async def apply(self, child: Object) -> None:
        """Apply a child over what is there."""
        await self.fence()
        kind, metadata = kind_of(child), child["metadata"]
        await self.kube.own(kind, metadata["namespace"], metadata["name"], names.FIELD_MANAGER)
        self.knowledge.written(self._key, await self.kube.apply(child, names.FIELD_MANAGER))

    async def delete(self, child: Object) -> None:
        """Delete this very child."""
        await self.fence()
        metadata = child["metadata"]
        await self.kube.delete(
            kind_of(child), metadata["namespace"], metadata["name"], metadata["uid"]
        )
        self.knowledge.deleted(self._key, child)


async def bring_about(hands: Hands, world: World, desired: Sequence[Object]) -> list[Problem]:
    """Create and apply the children that differ, in their order; delete what is not wished."""
    key = hands.owner.key
    for child in map(stamped, desired):
        live = world.child(child["kind"], child["metadata"]["name"])
        if live is not None and not _differs(child, live):
            continue
        problem = await _write(hands, child, live)
        if problem is not None:
            return [problem]
        log.info("applied", key=key, child=_title(child))
    wanted = {(child["kind"], child["metadata"]["name"]) for child in desired}
    for child in world.children:
        metadata = child["metadata"]
        if (child["kind"], metadata["name"]) in wanted or metadata.get("deletionTimestamp"):
            continue
        await hands.delete(child)
        log.info("deleted", key=key, child=_title(child))
    return []


def _differs(child: Object, live: Object) -> bool:
    # What was rendered stays, and the API server lets nobody change it.
    return child["kind"] != CONTROLLER_REVISION.kind and drifted(child, live)


async def _write(hands: Hands, child: Object, live: Object | None) -> Problem | None:
    try:
        if live is None:
            await hands.create(child)
        else:
            await _mend(hands, child, live)
    except AlreadyExistsError:
        return await _met(hands, child)
    except (InvalidError, ForbiddenError) as error:
        text = f"the API server refuses {_title(child)}: {error.message}"
        return Problem("ChildRefused", "spec", text)
    return None


async def _met(hands: Hands, child: Object) -> Problem | None:
    """Deal with an object that was not among ours and has the name of one."""
    owner, name = hands.owner, child["metadata"]["name"]
    holder = await hands.kube.get(kind_of(child), owner.namespace, name)
    if holder is None:
        raise ConflictError(409, "Conflict", f"{_title(child)} is gone again")
    reference = controller(holder) or {}
    if reference.get("uid") == owner.uid:
        if child["kind"] == CONTROLLER_REVISION.kind:
            # What it holds counts, not what would be rendered now: give it its labels back, so that
            # it is found, and begin again.
            await hands.apply({key: child[key] for key in ("apiVersion", "kind", "metadata")})
            raise ConflictError(409, "Conflict", f"{_title(child)} was there already")
        # Ours, and somebody took its labels away; or its twin, after an answer that was lost.
        await _mend(hands, child, holder)
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
    if live.get("roleRef") != child.get("roleRef"):
        # Immutable; it names the chart's release, which an admin may have renamed.
        await hands.delete(live)
        await hands.create(child)
    else:
        await hands.apply(child)


def _title(obj: Object) -> str:
    return f"{obj['kind']} {obj['metadata']['name']}"

"""Bring Services, rights and routers to what is wished: apply what differs, delete what is left.

A name that is held by an object of another owner is waited for, never adopted: forced server-side
apply would otherwise take over a stranger's object without a word.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from moriio_operator.api import names
from moriio_operator.api.deployment import Owner
from moriio_operator.build.metadata import controller
from moriio_operator.control.observe import World
from moriio_operator.kube.client import Kube, Object
from moriio_operator.kube.drift import drifted, stamped
from moriio_operator.kube.errors import ForbiddenError, InvalidError
from moriio_operator.kube.kinds import kind_of
from moriio_operator.plan.problem import Problem

log = structlog.get_logger(__name__)


async def bring_about(
    kube: Kube, owner: Owner, world: World, desired: Sequence[Object]
) -> list[Problem]:
    """Apply the children that differ, in their order, and delete those that are not wished."""
    for child in map(stamped, desired):
        live = world.child(child["kind"], child["metadata"]["name"])
        if live is not None and not drifted(child, live):
            continue
        if live is not None and live.get("roleRef") != child.get("roleRef"):
            # Immutable; it names the chart's release, which an admin may have renamed.
            await kube.delete(kind_of(live), owner.namespace, *_identity(live))
        problem = await _apply(kube, owner, child, fresh=live is None)
        if problem is not None:
            return [problem]
        log.info("applied", key=owner.key, child=_title(child))
    wanted = {(child["kind"], child["metadata"]["name"]) for child in desired}
    for child in world.children:
        metadata = child["metadata"]
        if (child["kind"], metadata["name"]) in wanted or metadata.get("deletionTimestamp"):
            continue
        await kube.delete(kind_of(child), owner.namespace, *_identity(child))
        log.info("deleted", key=owner.key, child=_title(child))
    return []


async def _apply(kube: Kube, owner: Owner, child: Object, *, fresh: bool) -> Problem | None:
    if fresh:
        taken = await _taken(kube, owner, child)
        if taken is not None:
            return taken
    try:
        await kube.apply(child, names.FIELD_MANAGER)
    except (InvalidError, ForbiddenError) as error:
        text = f"the API server refuses {_title(child)}: {error.message}"
        return Problem("ChildRefused", "spec", text)
    return None


async def _taken(kube: Kube, owner: Owner, child: Object) -> Problem | None:
    """Find out whether a name is held by an object that is not ours."""
    name = child["metadata"]["name"]
    holder = await kube.get(kind_of(child), owner.namespace, name)
    if holder is None:
        return None
    reference = controller(holder) or {}
    if reference.get("uid") == owner.uid:
        return None
    if (reference.get("kind"), reference.get("name")) == (names.KIND, owner.name):
        text = f"{_title(child)} is still there from an earlier PDDeployment of this name: wait"
    else:
        text = (
            f"{_title(child)} exists and does not belong to this PDDeployment: delete it, or give "
            "the PDDeployment another name"
        )
    return Problem("NameTaken", "metadata.name", text)


def _identity(obj: Object) -> tuple[str, str]:
    return obj["metadata"]["name"], obj["metadata"]["uid"]


def _title(obj: Object) -> str:
    return f"{obj['kind']} {obj['metadata']['name']}"

"""Read the world of one PDDeployment, live: the object, its engines, its other children.

Never a cache that events feed: a deletion in a watch gap would never be noticed. Objects that
carry our labels but another controller are not ours, whatever their name.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from moriio_operator.api import names
from moriio_operator.build.metadata import controlled_by
from moriio_operator.control.queue import Key
from moriio_operator.kube import kinds
from moriio_operator.kube.client import Kube, Object
from moriio_operator.kube.kinds import Kind


@dataclass(frozen=True, slots=True)
class World:
    """What was read: the PDDeployment as it is stored, its engine pods, its other children."""

    resource: Object
    pods: tuple[Object, ...]
    children: tuple[Object, ...]

    def child(self, kind: str, name: str) -> dict[str, Any] | None:
        """Find a child of ours."""
        for child in self.children:
            if child["kind"] == kind and child["metadata"]["name"] == name:
                return child
        return None


async def observe(kube: Kube, key: Key) -> World | None:
    """Read everything about one PDDeployment; None when it is gone or on its way out.

    A deleted object's children are the garbage collector's, and a create would race with it.
    """
    resource = await kube.get(kinds.PDDEPLOYMENT, key.namespace, key.name)
    if resource is None or resource["metadata"].get("deletionTimestamp"):
        return None
    uid = resource["metadata"]["uid"]
    selector = f"{names.LABEL_DEPLOYMENT}={key.name}"
    engines = f"{selector},{names.LABEL_COMPONENT}={names.COMPONENT_ENGINE}"
    pods, *children = await asyncio.gather(
        _owned(kube, kinds.POD, key.namespace, engines, uid),
        *(_owned(kube, kind, key.namespace, selector, uid) for kind in kinds.CHILDREN),
    )
    return World(resource, pods, tuple(child for group in children for child in group))


async def _owned(
    kube: Kube, kind: Kind, namespace: str, selector: str, uid: str
) -> tuple[Object, ...]:
    items, _ = await kube.list(kind, namespace, selector)
    return tuple(item for item in items if controlled_by(item, uid))

"""Read the world of one PDDeployment: the object and its engines, live, and its other children.

Never from a cache that events feed: a deletion in a watch gap would never be noticed. Children are
known from reading and writing them until an event or the resync puts that in doubt. Objects that
carry our labels but another controller are not ours, whatever their name. Reports are known in the
same way; they belong to the pods that write them, and the label alone says whom they concern.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import structlog

from moriio_operator.api import names
from moriio_operator.api.kinds import CACHED, PDDEPLOYMENT, PDREPORT
from moriio_operator.api.report import PDReport
from moriio_operator.build.revision_template import RevisionTemplate
from moriio_operator.build.revision_template import read as read_template
from moriio_operator.control.child_cache import ChildCache
from moriio_operator.control.queue import Key
from moriio_operator.kube import kinds
from moriio_operator.kube.client import Kube
from moriio_operator.kube.errors import ForbiddenError, NotFoundError
from moriio_operator.kube.kinds import CONTROLLER_REVISION, Kind
from moriio_operator.kube.objects import Object, controlled_by

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class World:
    """What was read: the PDDeployment as it is stored, its engine pods, its other children.

    `reports` are those that carry its label, whoever wrote them.
    """

    resource: Object
    pods: tuple[Object, ...]
    children: tuple[Object, ...]
    reports: tuple[PDReport, ...] = ()

    def stored_template(self, name: str) -> RevisionTemplate | None:
        """Find rendered templates that are kept."""
        kept = self.child(CONTROLLER_REVISION.kind, name)
        return None if kept is None else read_template(kept)

    def stored_templates(self) -> list[RevisionTemplate]:
        """Give all rendered templates that are kept."""
        return [
            read_template(child)
            for child in self.children
            if child["kind"] == CONTROLLER_REVISION.kind
        ]

    def revisions(self) -> set[str]:
        """Give the revisions of which templates are kept."""
        return {template.revision for template in self.stored_templates()}

    def child(self, kind: str, name: str) -> dict[str, Any] | None:
        """Find a child of ours."""
        for child in self.children:
            if child["kind"] == kind and child["metadata"]["name"] == name:
                return child
        return None


async def observe(kube: Kube, cache: ChildCache, key: Key) -> World | None:
    """Read everything about one PDDeployment; None when it is gone or on its way out.

    A deleted object's children are the garbage collector's, and a create would race with it.
    """
    resource = await kube.get(PDDEPLOYMENT, key.namespace, key.name)
    if resource is None or resource["metadata"].get("deletionTimestamp"):
        cache.forget(key)
        return None
    uid = resource["metadata"]["uid"]
    selector = f"{names.LABEL_DEPLOYMENT}={key.name}"
    engines = f"{selector},{names.LABEL_COMPONENT}={names.COMPONENT_ENGINE}"
    unknown, known = cache.stale(key, CACHED, uid)
    if "status" not in resource:
        # The status is written before the first child. Should it have been lost, the names of
        # children are taken, and the next pass, which then finds a status, reads them.
        for kind in unknown:
            cache.store(key, kind, ())
        unknown = []
    pods, *found = await asyncio.gather(
        _owned(kube, kinds.POD, key.namespace, engines, uid),
        *(_read(kube, kind, key.namespace, selector, uid) for kind in unknown),
    )
    for kind, objects in zip(unknown, found, strict=True):
        cache.store(key, kind, objects)
    read = (*known, *(obj for objects in found for obj in objects))
    return World(
        resource,
        pods,
        tuple(obj for obj in read if obj["kind"] != PDREPORT.kind),
        _reports(obj for obj in read if obj["kind"] == PDREPORT.kind),
    )


async def _read(
    kube: Kube, kind: Kind, namespace: str, selector: str, uid: str
) -> tuple[Object, ...]:
    if kind != PDREPORT:
        return await _owned(kube, kind, namespace, selector, uid)
    try:
        items, _ = await kube.list(kind, namespace, selector)
    except (NotFoundError, ForbiddenError) as error:
        # Younger than the CRDs, or than the rights, of this cluster. Nothing waits for reports.
        log.info("reports not read", namespace=namespace, selector=selector, error=str(error))
        return ()
    return tuple(items)


async def _owned(
    kube: Kube, kind: Kind, namespace: str, selector: str, uid: str
) -> tuple[Object, ...]:
    items, _ = await kube.list(kind, namespace, selector)
    return tuple(item for item in items if controlled_by(item, uid))


def _reports(objects: Iterable[Object]) -> tuple[PDReport, ...]:
    """Read reports; one of a shape that this version does not know says nothing to it."""
    read = (PDReport.from_object(obj) for obj in objects)
    return tuple(report for report in read if report is not None)

"""The periodic resync: the remedy for whatever no event reported.

Everything that passes look at is listed, a list per kind and not a read per object, and compared
with what the last pass over each PDDeployment saw and left. Only where something differs is a pass
due, and that one reads everything anew. So an idle cluster costs a handful of lists, however many
PDDeployments there are.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Iterable

import structlog

from moriio_operator.api import names
from moriio_operator.api.kinds import CACHED, PDDEPLOYMENT, PDREPORT
from moriio_operator.control.child_cache import ChildCache, Versions
from moriio_operator.control.queue import Key, WorkQueue
from moriio_operator.kube.client import Kube
from moriio_operator.kube.errors import ForbiddenError, NotFoundError
from moriio_operator.kube.kinds import POD, Kind
from moriio_operator.kube.objects import Object, controlled_by

log = structlog.get_logger(__name__)

# Selectors of what belongs to PDDeployments; reports carry the same label as children.
_SELECTORS = {POD: names.ENGINES_SELECTOR} | dict.fromkeys(CACHED, names.OWNED_SELECTOR)


async def resync(
    kube: Kube, queue: WorkQueue, cache: ChildCache, namespaces: list[str], every_s: float
) -> None:
    """Compare everything with what passes know, now and then, until cancelled."""
    while True:
        await asyncio.sleep(every_s * random.uniform(0.9, 1.1))  # noqa: S311 - jitter
        for namespace in namespaces or (None,):
            try:
                await _compare(kube, queue, cache, namespace)
            except Exception as error:  # noqa: BLE001 - the next round tries again
                log.warning("resync failed", namespace=namespace or "all", error=repr(error))


async def _compare(kube: Kube, queue: WorkQueue, cache: ChildCache, namespace: str | None) -> None:
    resources, _ = await kube.list(PDDEPLOYMENT, namespace)
    there = {Key(r["metadata"]["namespace"], r["metadata"]["name"]): r for r in resources}
    found: defaultdict[Key, dict[str, Versions]] = defaultdict(dict)
    for kind in _SELECTORS:
        for obj in await _list(kube, kind, namespace):
            key = Key(
                obj["metadata"]["namespace"], obj["metadata"]["labels"][names.LABEL_DEPLOYMENT]
            )
            owner = there.get(key)
            if owner is not None and _concerns(obj, owner):
                of_kind = found[key].setdefault(kind.kind, {})
                of_kind[obj["metadata"]["name"]] = obj["metadata"]["resourceVersion"]
    for key, resource in there.items():
        if not cache.agrees_with(key, resource, found[key]):
            cache.forget(key)
            queue.add(key)
    for key in _gone(cache.keys(), there, namespace):
        queue.add(key)


async def _list(kube: Kube, kind: Kind, namespace: str | None) -> list[Object]:
    try:
        items, _ = await kube.list(kind, namespace, _SELECTORS[kind])
    except (ForbiddenError, NotFoundError):
        if kind != PDREPORT:
            raise
        # Younger than the CRDs, or than the rights, of this cluster.
        return []
    return [item for item in items if names.LABEL_DEPLOYMENT in item["metadata"]["labels"]]


def _concerns(obj: Object, owner: Object) -> bool:
    return obj["kind"] == PDREPORT.kind or controlled_by(obj, owner["metadata"]["uid"])


def _gone(known: Iterable[Key], there: Iterable[Key], namespace: str | None) -> list[Key]:
    """Give what passes know of and is there no more; a pass forgets it."""
    left = set(known) - set(there)
    return [key for key in left if namespace in (None, key.namespace)]

"""Follow the objects of one kind: list, watch, resume, list again; a store of what is there.

A watch that ends is resumed from the last version seen. One whose version has expired, or whose
connection breaks or falls silent, begins with a new list, which also finds deletions that a gap
hid. What is known stays known while the API server is away. No round begins sooner than an
interval after the one before: a server that ends each watch at once, or calls each version
expired, must not be asked without pause by every node and every router pod.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable
from typing import TypeAlias

import structlog

from moriio_operator.kube.client import Kube
from moriio_operator.kube.errors import ApiError, ExpiredError
from moriio_operator.kube.kinds import Kind
from moriio_operator.kube.objects import Object

log = structlog.get_logger(__name__)

# Called with an object before and after a change: None before it was there, None once it is gone.
OnChange: TypeAlias = Callable[[Object | None, Object | None], None]

# A round is a list, a watch, or one after the other.
_ROUND_S = 1.0
_FIRST_RETRY_S = 0.5
_LONGEST_RETRY_S = 10.0


def _ignore(_before: Object | None, _after: Object | None) -> None:
    """React to nothing."""


class Reflector:
    """The objects of a kind as last known, in one namespace, or in all without one."""

    def __init__(
        self,
        kube: Kube,
        kind: Kind,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        on_change: OnChange = _ignore,
    ) -> None:
        self._kube = kube
        self._kind = kind
        self._namespace = namespace
        self._labels = labels
        self._fields = fields
        self._on_change = on_change
        self._objects: dict[tuple[str, str], Object] = {}
        # The version to resume from; none asks for a list.
        self._version = ""
        self.listed = False

    def objects(self) -> list[Object]:
        """Give all objects."""
        return list(self._objects.values())

    def get(self, namespace: str, name: str) -> Object | None:
        """Find an object; one of a kind without namespaces has an empty one."""
        return self._objects.get((namespace, name))

    async def run(self) -> None:
        """Follow until cancelled."""
        failures = 0
        while True:
            started = time.monotonic()
            retry_s = await self._round(failures)
            lasted_s = time.monotonic() - started
            # A connection that breaks after a good while is no repeated failure.
            again = retry_s > 0 and lasted_s < _LONGEST_RETRY_S
            failures = failures + 1 if again else int(retry_s > 0)
            await asyncio.sleep(max(retry_s, _ROUND_S - lasted_s, 0))

    async def _round(self, failures: int) -> float:
        """List if that is due, and watch; give how long to wait after a failure, else 0."""
        try:
            if not self._version:
                await self._list()
            await self._watch()
        except ExpiredError:
            log.info("watch expired, listing again", kind=self._kind.kind)
            self._version = ""
        except ApiError as error:
            longest = min(_FIRST_RETRY_S * 2 ** min(failures, 10), _LONGEST_RETRY_S)
            retry_s: float = longest * random.uniform(0.8, 1.2)  # noqa: S311 - jitter
            log.warning("watch broke", kind=self._kind.kind, error=str(error), retry_s=retry_s)
            self._version = ""
            return retry_s
        return 0

    async def _list(self) -> None:
        items, version = await self._kube.list(
            self._kind, self._namespace, self._labels, self._fields
        )
        self._replace(items)
        self.listed = True
        self._version = version

    async def _watch(self) -> None:
        events = self._kube.watch(
            self._kind, self._namespace, self._labels, self._version, self._fields
        )
        async for event, obj in events:
            self._version = _version(obj)
            if event == "DELETED":
                self._remove(_place(obj))
            elif event != "BOOKMARK":
                self._store(obj)

    def _replace(self, items: Iterable[Object]) -> None:
        """Take in a list, which is all that there is."""
        listed = {_place(item): item for item in items}
        for place in self._objects.keys() - listed.keys():
            self._remove(place)
        for item in listed.values():
            self._store(item)

    def _store(self, obj: Object) -> None:
        place = _place(obj)
        before = self._objects.get(place)
        self._objects[place] = obj
        if before is None or _version(before) != _version(obj):
            self._on_change(before, obj)

    def _remove(self, place: tuple[str, str]) -> None:
        before = self._objects.pop(place, None)
        if before is not None:
            self._on_change(before, None)


def _place(obj: Object) -> tuple[str, str]:
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _version(obj: Object) -> str:
    return str(obj["metadata"]["resourceVersion"])

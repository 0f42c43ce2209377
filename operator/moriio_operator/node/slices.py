"""Follow the EndpointSlices of some Services: list, watch, resume, list again.

A watch that ends is resumed from the last version seen; one whose version has expired, or whose
stream breaks, begins with a new list, which also finds deletions that a gap hid.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from typing import Any

import structlog

from moriio_operator.kube.client import Kube
from moriio_operator.kube.errors import ExpiredError
from moriio_operator.kube.kinds import ENDPOINT_SLICE
from moriio_operator.node.endpoints import SERVICE_LABEL

log = structlog.get_logger(__name__)

_FIRST_RETRY_S = 0.5
_LONGEST_RETRY_S = 10.0


class SliceWatch:
    """The slices as last known. What is known stays known while the API server is away."""

    def __init__(self, kube: Kube, namespace: str, services: Iterable[str]) -> None:
        self._kube = kube
        self._namespace = namespace
        self._selector = f"{SERVICE_LABEL} in ({','.join(sorted(services))})"
        self._slices: dict[str, dict[str, Any]] = {}
        self.listed = False

    def slices(self) -> list[dict[str, Any]]:
        """Give the slices."""
        return list(self._slices.values())

    async def run(self) -> None:
        """Follow until cancelled."""
        version, failures = "", 0
        while True:
            try:
                if not version:
                    version = await self._list()
                version = await self._follow(version)
                failures = 0
            except ExpiredError:
                log.info("watch expired, listing again")
                version = ""
            except Exception as error:  # noqa: BLE001 - whatever broke the stream, begin again
                failures += 1
                wait_s = min(_FIRST_RETRY_S * 2 ** min(failures - 1, 10), _LONGEST_RETRY_S)
                log.warning("watch broke", error=repr(error), retry_s=wait_s)
                version = ""
                await asyncio.sleep(wait_s * random.uniform(0.8, 1.2))  # noqa: S311 - jitter

    async def _list(self) -> str:
        items, version = await self._kube.list(ENDPOINT_SLICE, self._namespace, self._selector)
        self._slices = {item["metadata"]["name"]: item for item in items}
        self.listed = True
        return version

    async def _follow(self, version: str) -> str:
        """Take in one watch; give the version to resume from."""
        events = self._kube.watch(ENDPOINT_SLICE, self._namespace, self._selector, version)
        async for kind, piece in events:
            metadata = piece["metadata"]
            version = metadata["resourceVersion"]
            if kind == "DELETED":
                self._slices.pop(metadata["name"], None)
            elif kind != "BOOKMARK":
                self._slices[metadata["name"]] = piece
        return version

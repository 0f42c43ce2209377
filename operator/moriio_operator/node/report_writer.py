"""Writes this pod's PDReport: on a change of its content, and now and then to show that it lives.

Beside everything else, with retries of its own: whether it can be written at the moment, or at all
(a definition that is not there yet, a right that an older chart lacks), holds up no registration.
A container that is started again goes on with what the one before it wrote: engines are asked anew,
and nothing is taken back meanwhile.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import structlog

from moriio_operator.api import names
from moriio_operator.api.kinds import PDREPORT
from moriio_operator.api.report import ENGINES_MAX, EngineReport, PDReport
from moriio_operator.kube.client import Kube
from moriio_operator.kube.errors import ApiError
from moriio_operator.kube.kinds import POD
from moriio_operator.kube.objects import Object, controlled_by

log = structlog.get_logger(__name__)

# Engines that start together answer one after the other: one write for all of them.
SETTLE_S = 1.0
# Each write is stored by etcd and wakes the operator, for each router pod of the cluster. Nothing
# depends on the time but a person who wonders whether the writer still lives.
HEARTBEAT_S = 600.0
_FIRST_RETRY_S = 1.0
_LONGEST_RETRY_S = 60.0


@dataclass(frozen=True, slots=True)
class Writer:
    """The pod that writes, and the PDDeployment that it belongs to."""

    namespace: str
    pod: str
    uid: str
    deployment: str


class ReportWriter:
    """The report as it should be, and as it was written last."""

    def __init__(self, kube: Kube, writer: Writer, now: Callable[[], datetime]) -> None:
        self._kube = kube
        self._writer = writer
        self._now = now
        self._engines: dict[str, EngineReport] = {}
        self._changed = asyncio.Event()
        # None before there is a report.
        self._written: list[dict[str, Any]] | None = None
        self._trouble: tuple[int, str] | None = None

    def put(self, engine: EngineReport) -> None:
        """Take in what an engine reports; what it says nothing of stays as it was."""
        known = self._engines.get(engine.pod_uid, engine)
        self._engines[engine.pod_uid] = known.model_copy(
            update=engine.model_dump(exclude_none=True)
        )
        self._changed.set()

    def keep(self, uids: Collection[str]) -> None:
        """Forget engines that are not among these."""
        for uid in self._engines.keys() - uids:
            del self._engines[uid]
            self._changed.set()

    async def run(self) -> None:
        """Write until cancelled."""
        await self._until_done(self._restore)
        while True:
            await self._wait()
            await self._until_done(self._write)

    async def _wait(self) -> None:
        """Wait until the content differs from what is written, or for the next heartbeat."""
        heartbeat_s = HEARTBEAT_S * random.uniform(1, 1.2)  # noqa: S311 - jitter
        try:
            async with asyncio.timeout(None if self._written is None else heartbeat_s):
                while self._content() == (self._written or []):
                    await self._changed.wait()
                    await asyncio.sleep(SETTLE_S)
                    self._changed.clear()
        except TimeoutError:
            return

    async def _until_done(self, call: Callable[[], Awaitable[None]]) -> None:
        retry_s = _FIRST_RETRY_S
        while True:
            try:
                await call()
            except ApiError as error:
                self._note(error)
                await asyncio.sleep(retry_s * random.uniform(0.8, 1.2))  # noqa: S311 - jitter
                retry_s = min(2 * retry_s, _LONGEST_RETRY_S)
            else:
                self._note(None)
                return

    def _note(self, error: ApiError | None) -> None:
        """Log that the API refuses, or takes the report again: once, not at each try."""
        trouble = None if error is None else (error.status, error.reason)
        if trouble == self._trouble:
            return
        self._trouble = trouble
        if error is None:
            log.info("report written again")
        else:
            log.warning("report not written", error=str(error))

    async def _restore(self) -> None:
        """Go on with the report of this very pod, if it has one."""
        writer = self._writer
        found = await self._kube.get(PDREPORT, writer.namespace, writer.pod)
        if found is None or not controlled_by(found, writer.uid):
            return
        report = PDReport.from_object(found)
        if report is None:
            return
        self._written = [_fields(engine) for engine in report.engines]
        for engine in report.engines:
            self._engines.setdefault(engine.pod_uid, engine)

    async def _write(self) -> None:
        content = self._content()
        await self._kube.apply(self._object(content), names.REGISTRAR_MANAGER)
        self._written = content

    def _content(self) -> list[dict[str, Any]]:
        uids = sorted(self._engines)[:ENGINES_MAX]
        return [_fields(self._engines[uid]) for uid in uids]

    def _object(self, engines: list[dict[str, Any]]) -> Object:
        writer = self._writer
        owner = {
            "apiVersion": POD.api_version,
            "kind": POD.kind,
            "name": writer.pod,
            "uid": writer.uid,
            "controller": True,
            # A right on pods would be needed to hold back their deletion, and nobody wants to.
            "blockOwnerDeletion": False,
        }
        return {
            "apiVersion": PDREPORT.api_version,
            "kind": PDREPORT.kind,
            "metadata": {
                "name": writer.pod,
                "namespace": writer.namespace,
                "labels": names.base_labels(writer.deployment),
                "ownerReferences": [owner],
            },
            "engines": engines,
            "renewTime": self._now().strftime("%Y-%m-%dT%H:%M:%SZ"),
        }


def _fields(engine: EngineReport) -> dict[str, Any]:
    return engine.model_dump(mode="json", by_alias=True, exclude_none=True)

"""The Lease that one replica of the operator holds: it alone acts, the others stand by.

A candidate takes a Lease that nobody holds, or whose holder has not renewed it for its whole
duration, as measured by the candidate's own clock since it saw the last renewal: clocks of two
machines are never compared. A holder gives up by itself when it could not renew for the deadline,
which is shorter, so it has stopped before anybody else begins.

A Lease does not fence: a holder that is paused past its lease does not know. `check`, asked before
each write, narrows that to an instant; what remains is the conditional status write that precedes
every create.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import structlog

from moriio_operator.kube.client import Kube
from moriio_operator.kube.errors import ApiError, ConflictError
from moriio_operator.kube.kinds import LEASE
from moriio_operator.kube.objects import Object

log = structlog.get_logger(__name__)


class LeaseLostError(Exception):
    """Somebody else holds the Lease, or may by now; nothing may be written any more."""


@dataclass(frozen=True, slots=True)
class Candidacy:
    """Who stands for which Lease, and its times."""

    namespace: str
    name: str
    identity: str
    field_manager: str
    duration_s: float = 15
    deadline_s: float = 10
    retry_s: float = 2


@dataclass(frozen=True, slots=True)
class _Sighting:
    """A state of the Lease, and when it was seen first."""

    version: str
    time: float


class Elector:
    """One candidate: `acquire`, then `keep` until it ends, then `release`."""

    def __init__(
        self,
        kube: Kube,
        candidacy: Candidacy,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kube = kube
        self._me = candidacy
        self._clock = clock
        self._seen: _Sighting | None = None
        self._waits_for = ""
        self._held: Object | None = None
        # When the last renewal was begun: the holder's time runs from there, not from its answer.
        self._renewed = 0.0

    @property
    def leads(self) -> bool:
        """Whether the Lease is held, as far as this process can know."""
        return self._held is not None and self._clock() - self._renewed < self._me.deadline_s

    @property
    def stands_by(self) -> bool:
        """Whether the Lease was looked at and somebody else has it."""
        return self._held is None and self._seen is not None

    def check(self) -> None:
        """Refuse to go on when the Lease may be another's.

        Raises:
            LeaseLostError: it may.
        """
        self._checked()

    async def acquire(self) -> None:
        """Wait until the Lease is ours."""
        while True:
            if await self._try_once():
                break
            await asyncio.sleep(self._me.retry_s * random.uniform(0.9, 1.1))  # noqa: S311 - jitter
        log.info("leading", lease=self._title, identity=self._me.identity)

    async def keep(self) -> None:
        """Renew until cancelled.

        Raises:
            LeaseLostError: another one took it, or it could not be renewed in time.
        """
        while True:
            await asyncio.sleep(self._me.retry_s)
            held = self._checked()
            left_s = self._me.deadline_s - (self._clock() - self._renewed)
            try:
                async with asyncio.timeout(left_s):
                    await self._renew(held)
            except (ApiError, TimeoutError) as error:
                log.warning("lease not renewed", lease=self._title, error=repr(error))

    async def release(self) -> None:
        """Let go, so that another one begins at once; if that fails, the Lease runs out."""
        self._held = None
        try:
            async with asyncio.timeout(self._me.retry_s):
                # As it is, not as we know it: the answer to our last write may have been lost.
                found = await self._kube.get(LEASE, self._me.namespace, self._me.name)
                if found is not None and self._is_ours(found):
                    await self._kube.update(self._lease(found, holder="", duration_s=1))
        except (ApiError, TimeoutError) as error:
            log.warning("lease not released", lease=self._title, error=repr(error))

    async def _try_once(self) -> bool:
        try:
            async with asyncio.timeout(self._me.deadline_s):
                return await self._take_if_free()
        except ConflictError:
            return False  # another candidate was faster
        except (ApiError, TimeoutError) as error:
            log.warning("no look at the lease", lease=self._title, error=repr(error))
            return False

    async def _take_if_free(self) -> bool:
        found = await self._kube.get(LEASE, self._me.namespace, self._me.name)
        began = self._clock()
        if found is None:
            made = self._lease({"metadata": {}})
            self._hold(await self._kube.create(made, self._me.field_manager), began)
            return True
        if not self._is_free(found):
            holder = found["spec"]["holderIdentity"]
            if holder != self._waits_for:
                log.info("standing by", lease=self._title, holder=holder)
                self._waits_for = holder
            return False
        self._hold(await self._kube.update(self._lease(found)), began)
        return True

    def _is_free(self, found: Object) -> bool:
        version = found["metadata"]["resourceVersion"]
        if self._seen is None or self._seen.version != version:
            self._seen = _Sighting(version, self._clock())
        spec = found.get("spec") or {}
        # Ours: taken by a write whose answer was lost.
        if not spec.get("holderIdentity") or self._is_ours(found):
            return True
        duration_s = spec.get("leaseDurationSeconds") or self._me.duration_s
        return self._clock() - self._seen.time > duration_s

    def _checked(self) -> Object:
        if self._held is None or not self.leads:
            raise LeaseLostError(f"the Lease {self._title} is not held any more")
        return self._held

    async def _renew(self, held: Object) -> None:
        began = self._clock()
        try:
            self._hold(await self._kube.update(self._lease(held)), began)
        except ConflictError as error:
            # Our own renewal whose answer was lost, or another candidate.
            found = await self._kube.get(LEASE, self._me.namespace, self._me.name)
            if found is None or not self._is_ours(found):
                raise LeaseLostError(f"the Lease {self._title} was taken: {error}") from error
            self._held = found

    def _is_ours(self, found: Object) -> bool:
        return bool((found.get("spec") or {}).get("holderIdentity") == self._me.identity)

    def _hold(self, lease: Object, began: float) -> None:
        self._held, self._renewed = lease, began

    def _lease(self, before: Object, holder: str | None = None, duration_s: float = 0) -> Object:
        """Give the Lease to write; the version that was read is the precondition."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec: dict[str, Any] = dict(before.get("spec") or {})
        identity = self._me.identity if holder is None else holder
        if spec.get("holderIdentity") != identity:
            spec["leaseTransitions"] = spec.get("leaseTransitions", -1) + 1
            spec["acquireTime"] = now
        return {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": {
                **before["metadata"],
                "namespace": self._me.namespace,
                "name": self._me.name,
            },
            "spec": {
                **spec,
                "holderIdentity": identity,
                # Whole seconds by its schema; rounded up, or a candidate would come too early.
                "leaseDurationSeconds": math.ceil(duration_s or self._me.duration_s),
                "renewTime": now,
            },
        }

    @property
    def _title(self) -> str:
        return f"{self._me.namespace}/{self._me.name}"

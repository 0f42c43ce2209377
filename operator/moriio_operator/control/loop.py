"""Workers that take keys off the queue, with back-off per key.

Each kind of key has a reconciler of its own. One broken object backs off alone; it never holds a
worker while it waits.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, TypeAlias

import structlog

from moriio_operator.control.queue import Key, WorkQueue
from moriio_operator.kube.errors import ConflictError
from moriio_operator.kube.lease import LeaseLostError

log = structlog.get_logger(__name__)


class Next(NamedTuple):
    """When to look at an object again.

    `again_s`: so many seconds from now, if no event comes before; None for not at all.
    `rest_s`: not before so many seconds, whatever comes: events come in swarms, and one pass
    answers a swarm.
    """

    again_s: float | None = None
    rest_s: float = 0.5


Reconcile: TypeAlias = Callable[[Key], Awaitable[Next]]
# Called after every pass: result and seconds.
PassObserver: TypeAlias = Callable[[str, float], None]

# What was changed meanwhile is read again soon.
_CONFLICT_S = 0.2
_CONFLICTS_AT_ONCE = 5
_FIRST_S = 1.0
_LONGEST_S = 60.0


class Loop:
    """The workers and their back-off."""

    def __init__(
        self, queue: WorkQueue, reconcilers: Mapping[str, Reconcile], observe: PassObserver
    ) -> None:
        self._queue = queue
        # By the kind of the key.
        self._reconcilers = reconcilers
        self._observe = observe
        self._failures: dict[Key, int] = {}
        self._conflicts: dict[Key, int] = {}

    async def run(self, workers: int) -> None:
        """Work until cancelled; a worker that dies ends the process (no zombie).

        Raises:
            LeaseLostError: a pass was about to write, and this process leads no more.
        """
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(self._work())
        except ExceptionGroup as several:
            raise several.exceptions[0] from several

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            started, rest_s = time.monotonic(), Next().rest_s
            try:
                result, rest_s = await self._once(key)
            finally:
                self._queue.done(key, rest_s)
            self._observe(result, time.monotonic() - started)

    async def _once(self, key: Key) -> tuple[str, float]:
        """Do one pass; give its result and how long the key rests."""
        try:
            again_s, rest_s = await self._reconcilers[key.kind](key)
        except ConflictError as error:
            conflicts = self._conflicts[key] = self._conflicts.get(key, 0) + 1
            log.debug("changed meanwhile", key=str(key), error=str(error))
            # One that lasts is no race: a webhook answers so, or another controller never rests.
            late = conflicts - _CONFLICTS_AT_ONCE
            wait_s = backoff_s(late) if late > 0 else _CONFLICT_S
            self._queue.add_later(key, wait_s)
            return "conflict", wait_s
        except LeaseLostError:
            raise
        except Exception as error:  # noqa: BLE001 - any failure of one object is that object's
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            wait_s = backoff_s(failures) * random.uniform(0.8, 1.2)  # noqa: S311 - jitter
            log.warning("pass failed", key=str(key), error=repr(error), retry_s=round(wait_s, 1))
            self._queue.add_later(key, wait_s)
            return "error", wait_s
        self._failures.pop(key, None)
        self._conflicts.pop(key, None)
        if again_s is not None:
            self._queue.add_later(key, again_s)
        return "ok", rest_s


def backoff_s(failures: int) -> float:
    """Seconds to wait after so many failures in a row: 1, 2, 4 ... 60."""
    return float(min(_FIRST_S * 2 ** min(failures - 1, 10), _LONGEST_S))

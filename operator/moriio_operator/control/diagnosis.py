"""What ended engines wrote last, read beside the passes and never by one of them.

The kubelet keeps the end of a container's log as its termination message, but not where it exits
with 0, as vLLM does when its engine core dies. Then the log is read once, for a few seconds at
most: its node may be gone. A pass goes on without it, and comes again when it is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

import structlog

from moriio_operator.control.queue import Key
from moriio_operator.kube.client import Kube
from moriio_operator.kube.errors import ApiError
from moriio_operator.observe.engine import Engine, with_log_end
from moriio_operator.observe.failure import tail
from moriio_operator.stack.stack import Stack

log = structlog.get_logger(__name__)

# Lines of the log of an engine that ended without a termination message.
LAST_LINES = 20
# From the moment when it is asked for, so it bounds also the wait for others' logs.
TIMEOUT_S = 5.0
_AT_ONCE = 8

# Called with each engine that has ended, once what it wrote last is known or given up.
ReportEnd: TypeAlias = Callable[[Engine], Awaitable[None]]


@dataclass(slots=True)
class Diagnosis:
    """The logs that are being read, and what was read of engines that still exist."""

    kube: Kube
    # Makes a PDDeployment due.
    enqueue: Callable[[Key], None] = lambda _: None
    _found: dict[Key, dict[str, str]] = field(default_factory=dict)
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    def forget(self, key: Key) -> None:
        """Forget a PDDeployment that is gone."""
        self._found.pop(key, None)

    def applied(self, key: Key, engines: Iterable[Engine], stack: Stack) -> list[Engine]:
        """Give the engines with what is known of their ends; of those that are gone, forget it."""
        known, listed = self._found.get(key, {}), list(engines)
        found = {e.uid: known[e.uid] for e in listed if e.uid in known}
        if found:
            self._found[key] = found
        else:
            self._found.pop(key, None)
        return [with_log_end(e, found[e.uid], stack) if e.uid in found else e for e in listed]

    def pending(self, key: Key, engines: Iterable[Engine]) -> frozenset[str]:
        """Give the uids of engines whose log is to be read, or is being read."""
        found = self._found.get(key, {})
        return frozenset(
            e.uid for e in engines if e.silent_container is not None and e.uid not in found
        )

    def begin(self, key: Key, engine: Engine, stack: Stack, report_end: ReportEnd | None) -> None:
        """Read an ended engine's log in the background, once."""
        if engine.uid not in self._tasks:
            task = asyncio.create_task(self._read(key, engine, stack, report_end))
            self._tasks[engine.uid] = task

    async def settle(self) -> None:
        """Wait until nothing is being read."""
        while self._tasks:
            await asyncio.gather(*self._tasks.values())

    async def _read(
        self, key: Key, engine: Engine, stack: Stack, report_end: ReportEnd | None
    ) -> None:
        text = ""
        try:
            async with asyncio.timeout(TIMEOUT_S), self._slots:
                text = await self.kube.log_tail(
                    key.namespace, engine.pod, engine.silent_container or "", LAST_LINES
                )
        except (ApiError, TimeoutError) as error:
            log.info("log not read", key=str(key), pod=engine.pod, error=str(error))
        finally:
            # Whatever happened, the engine is not waited for any longer.
            del self._tasks[engine.uid]
            self._found.setdefault(key, {})[engine.uid] = tail(text)
            self.enqueue(key)
        if report_end is not None:
            await report_end(with_log_end(engine, text, stack))

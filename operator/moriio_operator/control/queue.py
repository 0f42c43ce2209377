"""A de-duplicating work queue: many events about one object become one reconcile.

A key is never worked on by two workers at once. A key that is added while it is worked on runs
once more afterwards, since the running pass may have read the world before the change.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple


class Key(NamedTuple):
    """Which PDDeployment to look at."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """Give namespace/name."""
        return f"{self.namespace}/{self.name}"


class WorkQueue:
    """Keys that are due, keys that are worked on, and keys that are due later."""

    def __init__(self) -> None:
        # Keys that may be taken. A key that is due while it is active waits in `_due` alone.
        self._ready: asyncio.Queue[Key] = asyncio.Queue()
        self._due: set[Key] = set()
        self._active: set[Key] = set()
        self._timers: dict[Key, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        """Count the keys that are due now."""
        return len(self._due)

    def add(self, key: Key) -> None:
        """Make a key due now; a later appointment of it is moot, the pass makes a new one."""
        self._cancel(key)
        if key in self._due:
            return
        self._due.add(key)
        if key not in self._active:
            self._ready.put_nowait(key)

    def add_later(self, key: Key, delay_s: float) -> None:
        """Make a key due after a delay; the earlier of two appointments stands."""
        if key in self._due:
            return
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None and timer.when() <= loop.time() + delay_s:
            return
        self._cancel(key)
        self._timers[key] = loop.call_later(delay_s, self.add, key)

    async def get(self) -> Key:
        """Take the next key; the caller must give it back with `done`."""
        key = await self._ready.get()
        self._due.discard(key)
        self._active.add(key)
        return key

    def done(self, key: Key) -> None:
        """Give a key back; if it became due meanwhile it runs again."""
        self._active.discard(key)
        if key in self._due:
            self._ready.put_nowait(key)

    def _cancel(self, key: Key) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

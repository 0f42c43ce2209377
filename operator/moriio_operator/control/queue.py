"""A de-duplicating work queue: many events about one object become one reconcile.

A key is never worked on by two workers at once. A key that is added while it is worked on runs
once more afterwards, since the running pass may have read the world before the change.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from moriio_operator.api import names


class Key(NamedTuple):
    """What to look at: an object of a kind that has a reconciler; most are PDDeployments."""

    # Empty for what is in no namespace, such as a node.
    namespace: str
    name: str
    kind: str = names.KIND

    def __str__(self) -> str:
        """Give namespace/name, after the kind where it is not the usual one."""
        path = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return path if self.kind == names.KIND else f"{self.kind} {path}"


class WorkQueue:
    """Keys that are due, keys that are worked on, and keys that are due later."""

    def __init__(self) -> None:
        # Keys that may be taken. A key that is due while it is active waits in `_due` alone.
        self._ready: asyncio.Queue[Key] = asyncio.Queue()
        self._due: set[Key] = set()
        self._active: set[Key] = set()
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        # Until when a key rests, whatever happens to it: loop time in seconds.
        self._rests: dict[Key, float] = {}

    def __len__(self) -> int:
        """Count the keys that are due now."""
        return len(self._due)

    def add(self, key: Key) -> None:
        """Make a key due now, or at the end of its rest."""
        self.add_later(key, 0)

    def add_later(self, key: Key, delay_s: float) -> None:
        """Make a key due after a delay and its rest; the earlier of two appointments stands."""
        if key in self._due:
            return
        loop = asyncio.get_running_loop()
        at = max(loop.time() + delay_s, self._rests.get(key, 0))
        if at <= loop.time():
            self._make_due(key)
            return
        timer = self._timers.get(key)
        if timer is not None and timer.when() <= at:
            return
        self._cancel(key)
        self._timers[key] = loop.call_at(at, self._make_due, key)

    async def get(self) -> Key:
        """Take the next key; the caller must give it back with `done`."""
        key = await self._ready.get()
        self._due.discard(key)
        self._active.add(key)
        self._rests.pop(key, None)
        return key

    def done(self, key: Key, rest_s: float = 0) -> None:
        """Give a key back, to rest for a while; if it became due meanwhile it runs again then.

        The rest is what makes a back-off one: events, the echo of our own writes among them, must
        not cut it short.
        """
        self._active.discard(key)
        if rest_s > 0:
            self._rest(key, rest_s)
        if key in self._due:
            self._due.discard(key)
            self.add(key)

    def _rest(self, key: Key, rest_s: float) -> None:
        loop = asyncio.get_running_loop()
        until = self._rests[key] = loop.time() + rest_s
        # Nothing is remembered of a key that nobody asks for again.
        loop.call_at(until, self._rested, key, until)
        timer = self._timers.get(key)
        if timer is not None and timer.when() < until:
            # Made while the key was worked on, before anybody knew how long it would rest.
            self._cancel(key)
            self._timers[key] = loop.call_at(until, self._make_due, key)

    def _rested(self, key: Key, until: float) -> None:
        if self._rests.get(key) == until:
            del self._rests[key]

    def _make_due(self, key: Key) -> None:
        self._cancel(key)
        if key in self._due:
            return
        self._due.add(key)
        if key not in self._active:
            self._ready.put_nowait(key)

    def _cancel(self, key: Key) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

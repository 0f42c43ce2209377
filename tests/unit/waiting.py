"""Waiting for a condition, with an end to the patience."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

PATIENCE_S = 10.0


async def until(holds: Callable[[], object]) -> None:
    """Wait until something holds.

    Raises:
        TimeoutError: it does not come to hold.
    """
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110 - what it waits for has no event
            await asyncio.sleep(0.005)

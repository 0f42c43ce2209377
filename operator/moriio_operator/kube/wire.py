"""Bytes from the API server: whole answers, and watches cut into lines."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp

from moriio_operator.kube.errors import UnreachableError

# Bookmarks come about once a minute.
_SILENCE_S = 90


async def read_whole(response: Any) -> bytes:
    """Read an answer to its end.

    Raises:
        UnreachableError: the connection broke on the way.
    """
    try:
        data: bytes = await response.read()
    except (aiohttp.ClientError, TimeoutError) as error:
        raise UnreachableError(error) from error
    return data


async def split_lines(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Split a watch into lines of any length; silence means that the connection is dead.

    Raises:
        TimeoutError: nothing came for so long that even bookmarks are missing.
    """
    rest = b""
    while chunk := await asyncio.wait_for(stream.readany(), _SILENCE_S):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line


def parse(data: bytes) -> dict[str, Any]:
    """Read an answer's JSON; what is none, such as a proxy's page, becomes a Status of its own."""
    try:
        parsed = json.loads(data)
    except ValueError:
        return {"reason": "NotJson", "message": data[:500].decode(errors="replace")}
    return parsed if isinstance(parsed, dict) else {}

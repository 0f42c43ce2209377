"""Bytes from the API server: whole answers, and watches cut into lines."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp

from moriio_operator.kube.errors import UnreachableError, from_status
from moriio_operator.kube.objects import Object

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
        UnreachableError: the connection broke, or even bookmarks have not come for too long.
    """
    rest = b""
    while chunk := await _chunk(stream):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line


async def _chunk(stream: aiohttp.StreamReader) -> bytes:
    try:
        return await asyncio.wait_for(stream.readany(), _SILENCE_S)
    except (aiohttp.ClientError, OSError) as error:
        # A TimeoutError is an OSError.
        raise UnreachableError(error) from error


def parse_event(line: bytes) -> tuple[str, Object]:
    """Read a line of a watch: the type of the event, and the object.

    Raises:
        UnreachableError: the line is no event; whatever answers there is not the API server.
        ApiError: the event is an error, by its status.
    """
    try:
        event = json.loads(line)
        kind, obj = str(event["type"]), event["object"]
        if kind == "ERROR":
            raise from_status(int(obj.get("code", 500)), obj)
        # Whoever follows a watch resumes from it.
        str(obj["metadata"]["resourceVersion"])
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise UnreachableError(error) from error
    return kind, obj


def parse(data: bytes) -> dict[str, Any]:
    """Read an answer's JSON; what is none, such as a proxy's page, becomes a Status of its own."""
    try:
        parsed = json.loads(data)
    except ValueError:
        return {"reason": "NotJson", "message": data[:500].decode(errors="replace")}
    return parsed if isinstance(parsed, dict) else {}

"""API errors as exceptions, by what a caller can do about them.

The official client raises nothing on a 4xx answer of a raw call, so the mapping is ours.
"""

from __future__ import annotations

from typing import Any


class ApiError(Exception):
    """The API server refused a call. `status` is the HTTP status, `message` the server's words."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


class NotFoundError(ApiError):
    """The object is not there."""


class ConflictError(ApiError):
    """The object changed since it was read; read again."""


class AlreadyExistsError(ConflictError):
    """The name is taken."""


class ForbiddenError(ApiError):
    """Missing right, quota or admission policy."""


class InvalidError(ApiError):
    """The object itself is wrong; the same call will fail again."""


class ExpiredError(ApiError):
    """The resource version is too old to watch from; list again."""


class UnreachableError(ApiError):
    """No answer: the connection broke or took too long. A write may have happened all the same."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(0, "Unreachable", repr(cause))


_BY_STATUS: dict[int, type[ApiError]] = {
    400: InvalidError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: ExpiredError,
    422: InvalidError,
}


def from_status(status: int, body: dict[str, Any]) -> ApiError:
    """Make the exception for an error answer (a `Status` object, or anything else)."""
    reason = str(body.get("reason") or "Unknown")
    kind = _BY_STATUS.get(status, ApiError)
    if reason == "AlreadyExists":
        kind = AlreadyExistsError
    return kind(status, reason, str(body.get("message") or ""))

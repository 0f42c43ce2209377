"""API errors as exceptions, by what a caller can do about them.

The official client raises nothing on a 4xx answer of a raw call, so the mapping is ours.
"""

from __future__ import annotations

import re
from enum import StrEnum
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


class AdmissionVerdict(StrEnum):
    """What admission has against an object, as opposed to trouble of the API server itself."""

    INVALID = "Invalid"
    OVER_QUOTA = "OverQuota"
    POD_SECURITY = "PodSecurity"
    DENIED = "Denied"
    # An admission webhook that must answer does not.
    WEBHOOK_FAILED = "WebhookFailed"


# The authorizer's words; an API server that starts says so of rights that it grants a moment later.
_UNAUTHORIZED = re.compile(r'User "[^"]*" cannot \w+ resource')


def admission_verdict(error: ApiError) -> AdmissionVerdict | None:
    """Return whether admission refused an object, and why; None for any other failure.

    Source: kube-apiserver 1.35. Status 500 stands for webhooks that fail, and as well for etcd that
    has no leader; 403 for admission, and as well for the authorizer.
    """
    message = error.message
    if isinstance(error, InvalidError):
        return AdmissionVerdict.INVALID
    if "denied the request" in message:
        return AdmissionVerdict.DENIED  # a webhook, which may choose any status
    if error.status == 500 and "failed calling webhook" in message:
        return AdmissionVerdict.WEBHOOK_FAILED
    if not isinstance(error, ForbiddenError) or _UNAUTHORIZED.search(message):
        return None
    if "exceeded quota" in message:
        return AdmissionVerdict.OVER_QUOTA
    return (
        AdmissionVerdict.POD_SECURITY
        if "violates PodSecurity" in message
        else AdmissionVerdict.DENIED
    )

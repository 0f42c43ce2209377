"""An error answer becomes the exception by which a caller knows what to do."""

from __future__ import annotations

import pytest
from moriio_operator.kube.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ExpiredError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    from_status,
)


@pytest.mark.parametrize(
    ("status", "reason", "kind"),
    [
        (400, "BadRequest", InvalidError),
        (401, "Unauthorized", ApiError),
        (403, "Forbidden", ForbiddenError),
        (404, "NotFound", NotFoundError),
        (409, "Conflict", ConflictError),
        (409, "AlreadyExists", AlreadyExistsError),
        (410, "Gone", ExpiredError),
        (410, "Expired", ExpiredError),
        (422, "Invalid", InvalidError),
        (429, "TooManyRequests", ApiError),
        (503, "ServiceUnavailable", ApiError),
    ],
)
def test_kinds(status: int, reason: str, kind: type[ApiError]) -> None:
    error = from_status(status, {"reason": reason, "message": "words"})
    assert type(error) is kind
    assert (error.status, error.reason, error.message) == (status, reason, "words")
    assert str(error) == f"{status} {reason}: words"


@pytest.mark.parametrize("body", [{}, {"reason": None, "message": None}, {"kind": "x"}])
def test_an_answer_without_words_is_still_an_error(body: dict[str, None]) -> None:
    assert str(from_status(500, body)) == "500 Unknown: "


def test_a_name_that_is_taken_is_a_conflict_too() -> None:
    assert issubclass(AlreadyExistsError, ConflictError)

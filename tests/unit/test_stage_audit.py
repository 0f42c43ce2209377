"""The audit log as it is read: what was forbidden, and what only failed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stage import audit


def written(folder: Path, status: int, decision: str | None) -> Path:
    """Write a log of one list of pods."""
    event = {
        "stage": "ResponseComplete",
        "verb": "list",
        "user": {"username": audit.OPERATOR_USER},
        "objectRef": {"resource": "pods", "namespace": "team"},
        "responseStatus": {"code": status},
        "requestReceivedTimestamp": "2026-11-30T13:12:43.170481Z",
        "annotations": {"authorization.k8s.io/decision": decision} if decision else {},
    }
    log = folder / "audit.log"
    log.write_text(json.dumps(event) + "\n")
    return log


@pytest.mark.parametrize(
    ("status", "decision", "forbidden"),
    [
        pytest.param(200, "allow", False, id="answered"),
        pytest.param(403, "forbid", True, id="no right to it"),
        pytest.param(403, "allow", False, id="admission's refusal"),
        pytest.param(429, None, False, id="turned away before the authorizer"),
    ],
)
def test_only_the_authorizer_forbids(
    tmp_path: Path, *, status: int, decision: str | None, forbidden: bool
) -> None:
    (call,) = audit.calls(written(tmp_path, status, decision))
    assert (call.status, call.forbidden) == (status, forbidden)

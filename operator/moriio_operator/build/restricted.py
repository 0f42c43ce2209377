"""The security context of the operator's own containers: no right that they do not use."""

from __future__ import annotations

from typing import Any

RESTRICTED: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}

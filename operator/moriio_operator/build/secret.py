"""Environment variables whose value the kubelet takes from a Secret: we never see it."""

from __future__ import annotations

from typing import Any

from moriio_operator.api.model import SecretKeyRef


def secret_variable(name: str, reference: SecretKeyRef) -> dict[str, Any]:
    """Build the variable; without the Secret the container does not start, and its pod says so."""
    source = {"name": reference.name, "key": reference.key}
    return {"name": name, "valueFrom": {"secretKeyRef": source}}

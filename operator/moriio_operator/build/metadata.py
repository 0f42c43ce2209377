"""Metadata that every child has: its labels, and the controller reference that collects it."""

from __future__ import annotations

from typing import Any

from moriio_operator.api import names
from moriio_operator.api.deployment import Owner
from moriio_operator.facts.terms import Role


def metadata(
    owner: Owner,
    name: str,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Give the metadata of a child; the owner's deletion collects it, so no finalizer is needed."""
    made: dict[str, Any] = {
        "name": name,
        "namespace": owner.namespace,
        "labels": {**(labels or {}), **names.base_labels(owner.name)},
        "ownerReferences": [
            {
                "apiVersion": names.API_VERSION,
                "kind": names.KIND,
                "name": owner.name,
                "uid": owner.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    if annotations:
        made["annotations"] = annotations
    return made


def engine_labels(revision: str, role: Role) -> dict[str, str]:
    """Labels by which Services and planners find the engines of a role and revision."""
    return {
        names.LABEL_COMPONENT: names.COMPONENT_ENGINE,
        names.LABEL_ROLE: role.value,
        names.LABEL_REVISION: revision,
    }


def router_labels(revision: str) -> dict[str, str]:
    """Labels by which the client Service finds the routers of a revision."""
    return {names.LABEL_COMPONENT: names.COMPONENT_ROUTER, names.LABEL_REVISION: revision}

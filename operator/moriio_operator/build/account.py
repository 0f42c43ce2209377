"""The registrar's identity: a ServiceAccount, bound to the chart's read-only role.

The operator may bind that one role and cannot make rights up: the chart grants it `bind`.
"""

from __future__ import annotations

from typing import Any

from moriio_operator.api import names
from moriio_operator.api.deployment import Owner
from moriio_operator.build.metadata import metadata

_LABELS = {names.LABEL_COMPONENT: names.COMPONENT_ROUTER}


def service_account(owner: Owner) -> dict[str, Any]:
    """Build the ServiceAccount of router pods; no token of it is mounted unasked."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(owner, names.router_account(owner.name), labels=_LABELS),
        "automountServiceAccountToken": False,
    }


def role_binding(owner: Owner, role_kind: str, role: str) -> dict[str, Any]:
    """Bind the ServiceAccount to the registrar's role, in the owner's namespace only."""
    account = names.router_account(owner.name)
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": metadata(owner, account, labels=_LABELS),
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": role_kind,
            "name": role,
        },
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": owner.namespace}],
    }

"""After all other tests of a run: the operator asked for nothing that it may not do."""

from __future__ import annotations

from typing import Any

import pytest
from bed.cluster import Bed
from stage import audit
from stage.installation import NAMESPACE, RELEASE

pytestmark = pytest.mark.last


def test_no_call_of_the_operator_was_forbidden(operator: Bed) -> None:
    made = [c for c in audit.calls(operator.audit_log) if c.user == audit.OPERATOR_USER]
    assert {c.verb for c in made} >= {"get", "list", "watch"}, "the search is blind"
    forbidden = [c for c in made if c.forbidden]
    # One that comes up forbids everything until it knows its roles; the caller tries again.
    assert [c for c in forbidden if not operator.api_server_was_starting(c.time)] == []


# Granted for what the API server asks itself when it admits a write of ours: no call shows them.
ASKED_IN_PASSING = {
    # A RoleBinding may only be made by whoever may bind its role.
    ("rbac.authorization.k8s.io", "clusterroles", "bind"),
    # Where owner references are enforced, a child may only block its owner's deletion with this.
    ("moriio.dev", "pddeployments/finalizers", "update"),
}


def granted(role: dict[str, Any]) -> set[tuple[str, str, str]]:
    """List what a role allows, as group, resource and verb."""
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_every_right_that_the_operator_has_was_used_and_no_other(operator: Bed) -> None:
    used = {
        (call.group, "/".join(filter(None, (call.resource, call.subresource))), call.verb)
        for call in audit.calls(operator.audit_log)
        if call.user == audit.OPERATOR_USER
    }
    roles = [
        operator.kubectl_json("get", "clusterrole", RELEASE),
        operator.kubectl_json("-n", NAMESPACE, "get", "role", f"{RELEASE}-lease"),
    ]
    rights = set().union(*map(granted, roles))
    assert rights - used == ASKED_IN_PASSING
    assert used <= rights

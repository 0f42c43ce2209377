"""Services: one headless a role and revision, for the registrar, and one for clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moriio_operator.api import names
from moriio_operator.api.deployment import Owner
from moriio_operator.build.metadata import engine_labels, metadata, router_labels
from moriio_operator.facts import router
from moriio_operator.facts.terms import Role

CLIENT_PORT = router.HTTP_PORT


def role_service(owner: Owner, role: Role, revision: str, ports: Sequence[str]) -> dict[str, Any]:
    """Build the headless Service of a role: it carries addresses and port numbers, no traffic.

    `ports` are the names that its engines give to theirs.

    Not-ready addresses are published, since a registrar must also see who stops; whether an
    engine serves is its endpoint's `serving` condition.
    """
    labels = engine_labels(revision, role)
    # Named target ports resolve per pod; the `port` numbers here are only their distinct labels.
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(owner, names.role_service(owner.name, role, revision), labels=labels),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            # The router's wire format has no brackets for anything else.
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "selector": {names.LABEL_DEPLOYMENT: owner.name, **labels},
            "ports": [
                {"name": name, "port": number, "targetPort": name, "protocol": "TCP"}
                for number, name in enumerate(ports, start=1)
            ],
        },
    }


def client_service(owner: Owner, revision: str) -> dict[str, Any]:
    """Build the Service that clients use; its selector names the revision that serves."""
    labels = router_labels(revision)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(
            owner, owner.name, labels={names.LABEL_COMPONENT: names.COMPONENT_ROUTER}
        ),
        "spec": {
            "type": "ClusterIP",
            "selector": {names.LABEL_DEPLOYMENT: owner.name, **labels},
            "ports": [
                {"name": "http", "port": CLIENT_PORT, "targetPort": "http", "protocol": "TCP"}
            ],
        },
    }


def endpoint(owner: Owner) -> str:
    """Give the address of the client Service; it resolves under any cluster domain."""
    return f"http://{owner.name}.{owner.namespace}.svc:{CLIENT_PORT}"

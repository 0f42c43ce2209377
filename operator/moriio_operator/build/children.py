"""All children of a PDDeployment except its engines, in the order in which they are applied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from moriio_operator.api.deployment import Owner
from moriio_operator.build.account import role_binding, service_account
from moriio_operator.build.engine_pod import port_names
from moriio_operator.build.revision_template import Sealed, controller_revision
from moriio_operator.build.router import router_deployment
from moriio_operator.build.services import client_service, role_service
from moriio_operator.facts.terms import ROLES


@dataclass(frozen=True, slots=True)
class Installation:
    """What the chart decided and children refer to."""

    # The operator's own image: it runs beside routers and engines, too.
    registrar_image: str
    registrar_role_kind: str
    registrar_role: str


def children(
    owner: Owner, revision: str, engines: Sealed, router: Sealed, installation: Installation
) -> list[dict[str, Any]]:
    """Build the desired children of a revision; a router finds its Services and rights ready."""
    return [
        client_service(owner, revision),
        *(
            role_service(owner, role, revision, port_names(engines.templates[role]))
            for role in ROLES
        ),
        service_account(owner),
        role_binding(owner, installation.registrar_role_kind, installation.registrar_role),
        controller_revision(owner, engines),
        controller_revision(owner, router),
        router_deployment(owner, revision, router.router),
    ]

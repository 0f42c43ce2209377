"""All children of a PDDeployment except its engines, in the order in which they are applied.

Templates come first: what engines and routers are made from is stored before anything is made from
it. A router finds its Services and rights ready.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from moriio_operator.api.deployment import Owner
from moriio_operator.build.account import role_binding, service_account
from moriio_operator.build.engine_pod import port_names
from moriio_operator.build.revision_template import RevisionTemplate, controller_revision
from moriio_operator.build.router import router_deployment
from moriio_operator.build.services import client_service, role_service
from moriio_operator.facts.terms import ROLES
from moriio_operator.kube.objects import Object


@dataclass(frozen=True, slots=True)
class Installation:
    """What the chart decided and children refer to."""

    # The operator's own image: it runs beside routers and engines, too.
    registrar_image: str
    registrar_role_kind: str
    registrar_role: str


@dataclass(frozen=True, slots=True)
class Templates:
    """What a revision's engines and routers are made from."""

    engines: RevisionTemplate
    router: RevisionTemplate

    @property
    def revision(self) -> str:
        """The revision."""
        return self.engines.revision


def children(
    owner: Owner,
    stored: Sequence[Templates],
    served: Sequence[Templates],
    client: str,
    installation: Installation,
) -> list[Object]:
    """Build the desired children.

    `stored` are the revisions whose templates are kept, `served` those among them that have routers
    and Services, `client` is the one whose routers the client Service selects.
    """
    return [
        *(controller_revision(owner, kept) for t in stored for kept in (t.engines, t.router)),
        client_service(owner, client),
        service_account(owner),
        role_binding(owner, installation.registrar_role_kind, installation.registrar_role),
        *(service for templates in served for service in _role_services(owner, templates)),
        *(router_deployment(owner, t.revision, t.router.router) for t in served),
    ]


def _role_services(owner: Owner, templates: Templates) -> list[Object]:
    return [
        role_service(owner, role, templates.revision, port_names(templates.engines.templates[role]))
        for role in ROLES
    ]

"""What was rendered stays: the templates of a revision, kept in a ControllerRevision.

Every later engine of a revision, and every later router pod, is made from the template that its
first one was made from, whatever operator runs by then: an upgrade restarts nothing. What engines
must agree on is the revision; a router has settings of its own, so its template is kept apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moriio_operator import __version__
from moriio_operator.api import names
from moriio_operator.api.deployment import Owner, Spec
from moriio_operator.build.engine_pod import block_size
from moriio_operator.build.engine_template import engine_template
from moriio_operator.build.metadata import metadata
from moriio_operator.build.router import router_template
from moriio_operator.facts.terms import ROLES, Role
from moriio_operator.plan.revision import router_revision

_ROUTER = "router"


@dataclass(frozen=True, slots=True)
class RevisionTemplate:
    """Rendered templates, and the version of the operator that rendered them."""

    name: str
    revision: str
    rendered_by: str
    # The spec as it was then: what the admin's policy is asked about again.
    spec: Mapping[str, Any]
    templates: Mapping[str, dict[str, Any]]

    @property
    def of_router(self) -> bool:
        """Whether this is the template of routers, not of engines."""
        return _ROUTER in self.templates

    @property
    def router(self) -> dict[str, Any]:
        """The pod template of the routers."""
        return self.templates[_ROUTER]

    @property
    def host_network(self) -> bool:
        """Whether engines share the address of their node."""
        return any(self.templates[role]["spec"].get("hostNetwork") for role in ROLES)

    def sizes(self) -> dict[Role, int]:
        """Give the number of ports that an engine of each role takes."""
        return {role: block_size(self.templates[role]) for role in ROLES}


def render_engines(owner: Owner, revision: str, image: str) -> RevisionTemplate:
    """Render the templates of both roles; `image` is the operator's own, for what runs beside."""
    templates = {role.value: engine_template(owner, role, revision, image) for role in ROLES}
    return RevisionTemplate(
        engines_template_name(owner, revision),
        revision,
        __version__,
        _written(owner.spec),
        templates,
    )


def render_router(owner: Owner, revision: str, registrar_image: str) -> RevisionTemplate:
    """Render the routers' template."""
    templates = {_ROUTER: router_template(owner, revision, registrar_image)}
    return RevisionTemplate(
        router_template_name(owner), revision, __version__, _written(owner.spec), templates
    )


def _written(spec: Spec) -> dict[str, Any]:
    return spec.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude_none=True)


def engines_template_name(owner: Owner, revision: str) -> str:
    """Name the ControllerRevision of a revision's engines."""
    return names.engine_templates(owner.name, revision)


def router_template_name(owner: Owner) -> str:
    """Name the ControllerRevision of the routers that the spec asks for."""
    return names.router_template(owner.name, router_revision(owner.spec))


def controller_revision(owner: Owner, template: RevisionTemplate) -> dict[str, Any]:
    """Build the ControllerRevision; the API server refuses any later change of its data."""
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": metadata(
            owner, template.name, labels={names.LABEL_REVISION: template.revision}
        ),
        # Required by the kind and of no use here: ours are found by name.
        "revision": 1,
        # With all that is asked of it: labels are anybody's to edit, this is nobody's.
        "data": {
            "revision": template.revision,
            "renderedBy": template.rendered_by,
            "spec": dict(template.spec),
            "templates": dict(template.templates),
        },
    }


def read(obj: dict[str, Any]) -> RevisionTemplate:
    """Read what `controller_revision` wrote."""
    name, data = obj["metadata"]["name"], obj["data"]
    return RevisionTemplate(
        name, data["revision"], data["renderedBy"], data["spec"], data["templates"]
    )

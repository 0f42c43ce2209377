"""Which templates a pass works with: as they were rendered once, or rendered now for a new spec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import ValidationError

from moriio_operator.admission import policy as admin
from moriio_operator.admission.policy import Policy
from moriio_operator.api.deployment import Owner, Spec
from moriio_operator.api.status import Status
from moriio_operator.build.children import Installation
from moriio_operator.build.children import Templates as RevisionTemplates
from moriio_operator.build.revision_template import (
    RevisionTemplate,
    engines_template_name,
    render_engines,
    render_router,
    router_template_name,
)
from moriio_operator.control.observe import World
from moriio_operator.facts.terms import ROLES, Role


@dataclass(frozen=True, slots=True)
class Templates:
    """The templates of one PDDeployment."""

    world: World
    owner: Owner
    status: Status
    installation: Installation
    # A pass asks several times; what a spec is rendered to is rendered once.
    _rendered: dict[str, RevisionTemplates] = field(default_factory=dict)

    def asked(self, revision: str) -> RevisionTemplates:
        """Give the templates of engines and routers that the spec asks for."""
        if revision not in self._rendered:
            image = self.installation.registrar_image
            engines = self.world.stored_template(engines_template_name(self.owner, revision))
            router = self.world.stored_template(router_template_name(self.owner))
            self._rendered[revision] = RevisionTemplates(
                engines or render_engines(self.owner, revision, image),
                router or render_router(self.owner, revision, image),
            )
        return self._rendered[revision]

    def kept(self, revision: str) -> RevisionTemplates | None:
        """Give those of a revision as it ran last, whatever the spec asks for by now."""
        engines = self.world.stored_template(engines_template_name(self.owner, revision))
        router = self._kept_router(revision)
        return None if engines is None or router is None else RevisionTemplates(engines, router)

    def _kept_router(self, revision: str) -> RevisionTemplate | None:
        """Give the routers' template that was applied last, of several that are stored."""
        stored = [
            s for s in self.world.stored_templates() if s.of_router and s.revision == revision
        ]
        recorded = {entry.name: entry.router_template for entry in self.status.revisions}
        named = [template for template in stored if template.name == recorded.get(revision)]
        # Before 0.2.0 no name was recorded.
        return next(iter(named or stored), None)


def allowed(
    owner: Owner, kept: RevisionTemplate, counts: Mapping[Role, int], policy: Policy
) -> bool:
    """Return whether the admin's policy, as it is now, allows what was rendered then."""
    try:
        spec = Spec.model_validate(kept.spec)
    except ValidationError:
        return False
    roles = {
        role.value: spec.role(role).model_copy(update={"replicas": counts.get(role, 0)})
        for role in ROLES
    }
    then = owner.model_copy(update={"spec": spec.model_copy(update=roles)})
    return not list(admin.problems(then, policy))

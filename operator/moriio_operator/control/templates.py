"""Which templates a pass works with: as they were rendered once, or rendered now for a new wish."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import ValidationError

from moriio_operator.admission import policy as admin
from moriio_operator.admission.policy import Policy
from moriio_operator.api.deployment import Owner, Spec
from moriio_operator.build.children import Installation
from moriio_operator.build.revision_template import (
    Sealed,
    engines_name,
    router_name,
    sealed_engines,
    sealed_router,
)
from moriio_operator.control.observe import World
from moriio_operator.facts.terms import ROLES, Role


@dataclass(frozen=True, slots=True)
class Templates:
    """The templates of one PDDeployment."""

    world: World
    owner: Owner
    installation: Installation
    # A pass asks several times; what a wish is rendered to is rendered once.
    _rendered: dict[str, Sealed] = field(default_factory=dict)

    def engines(self, revision: str) -> Sealed:
        """Give what a revision's engines are made from."""
        kept = self._kept_engines(revision) or self._rendered.get(revision)
        if kept is None:
            kept = self._rendered[revision] = sealed_engines(
                self.owner, revision, self.installation.registrar_image
            )
        return kept

    def of_wish(self, revision: str) -> tuple[Sealed, Sealed]:
        """Give the templates of engines and routers that the spec asks for."""
        kept = self.world.sealed(router_name(self.owner))
        image = self.installation.registrar_image
        router = kept or sealed_router(self.owner, revision, image)
        return self.engines(revision), router

    def kept(self, revision: str) -> tuple[Sealed, Sealed] | None:
        """Give those of a revision as it ran last, whatever the spec asks for by now."""
        engines = self._kept_engines(revision)
        routers = [s for s in self.world.seals() if s.of_router and s.revision == revision]
        return None if engines is None or not routers else (engines, routers[0])

    def _kept_engines(self, revision: str) -> Sealed | None:
        return self.world.sealed(engines_name(self.owner, revision))


def allowed(owner: Owner, kept: Sealed, counts: Mapping[Role, int], policy: Policy) -> bool:
    """Tell whether the admin's policy, as it is now, allows what was rendered then."""
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

"""Steps 2 to 4 of a pass: judge, plan, and try by dry-run what would be new.

Judge and plan are pure and know only what they are given. What they need to know beyond what was
observed is found out between two rounds: which ports others hold, once engines are to be created on
the host network, and what the API server refuses, once something is to be created. A round is never
corrected; when more is known, both are asked anew. Each thing is found out once, so this ends.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from moriio_operator.admission.network import port_range
from moriio_operator.admission.policy import Policy
from moriio_operator.api import names
from moriio_operator.api.deployment import Owner
from moriio_operator.api.ports import PortRange
from moriio_operator.api.problem import Problem
from moriio_operator.api.status import Status
from moriio_operator.build.children import Templates as RevisionTemplates
from moriio_operator.build.children import children
from moriio_operator.build.engine_pod import engine_pod_of
from moriio_operator.control.dry_run import try_children, try_engines
from moriio_operator.control.host_ports import HostPorts
from moriio_operator.control.observe import World
from moriio_operator.control.templates import Templates, allowed
from moriio_operator.facts.terms import ROLES
from moriio_operator.kube.client import Kube
from moriio_operator.kube.objects import Object
from moriio_operator.observe.engine import Engine
from moriio_operator.plan.decision import Decision, Freeze, Refusal, Target, judge
from moriio_operator.plan.step import PortSpace, Step, plan
from moriio_operator.plan.view import (
    EngineShape,
    RevisionView,
    accepted_counts,
    beside,
    engines_of,
    view_of,
    waits_for_node,
)


@dataclass(frozen=True, slots=True)
class Decided:
    """What a pass does, and everything that this was decided by."""

    views: tuple[RevisionView, ...]
    refusals: tuple[Refusal, ...]
    decision: Decision
    step: Step

    @property
    def target(self) -> str | None:
        """The revision that was accepted last, with this pass; None if none ever was."""
        if isinstance(self.decision, Freeze):
            return self.decision.revision
        return self.decision.target.revision


@dataclass(frozen=True, slots=True)
class Decider:
    """Decides for one pass."""

    kube: Kube
    owner: Owner
    status: Status
    world: World
    templates: Templates
    host_ports: HostPorts
    policy: Policy
    ports: PortRange
    now: datetime
    # What the spec asks for, and what is wrong with it by itself.
    asked: Target
    problems: Sequence[Problem]
    # Engines that ended and whose log is being read.
    undiagnosed: frozenset[str] = frozenset()

    async def decide(
        self, engines: Collection[Engine], refusals: tuple[Refusal, ...] = ()
    ) -> Decided:
        """Judge, plan and try, until nothing more is to be found out."""
        views = self._views(engines)
        if self.host_ports.neighbours is not None:
            views = beside(views, self.host_ports.neighbours)
        tried: set[tuple[str, str]] = set()
        while True:
            decided = self._round(views, refusals)
            if self._needs_neighbours(decided):
                views = beside(views, await self.host_ports.read())
                continue
            found = await self._try(decided, tried)
            if not found:
                return decided
            refusals = (*refusals, *found)

    def _round(self, views: tuple[RevisionView, ...], refusals: tuple[Refusal, ...]) -> Decided:
        """Judge and plan with what is known."""
        decision = judge(self.asked, self.status.revision, views, self.problems, refusals)
        # The range is today's, whatever revision the ports are for.
        space = PortSpace(port_range(self.owner.spec.network, self.ports), self.host_ports.held())
        step = plan(
            decision, self.owner.name, self.status, views, space, self.now, self.undiagnosed
        )
        # In the same moment: nobody else has planned with what was held since.
        self.host_ports.reserve(creation.ports for creation in step.creations)
        return Decided(views, refusals, decision, step)

    def pods(self, step: Step) -> list[Object]:
        """Build the engines that a step creates."""
        return [
            self._pod(creation.revision, creation.role, creation.pod, creation.ports.base)
            for creation in step.creations
        ]

    def of_revision(self, revision: str) -> RevisionTemplates | None:
        """Give a revision's templates: as they are stored, or rendered for what the spec asks."""
        if revision == self.asked.revision:
            return self.templates.asked(revision)
        return self.templates.kept(revision)

    def _pod(self, revision: str, role: str, name: str, base: int) -> Object:
        templates = self.of_revision(revision)
        assert templates is not None  # noqa: S101 - without a shape nothing is planned
        return engine_pod_of(self.owner, name, templates.engines.templates[role], base)

    def _views(self, engines: Collection[Engine]) -> tuple[RevisionView, ...]:
        asked = self.asked.revision
        living = (engine.revision for engine in engines)
        found = dict.fromkeys((asked, *filter(None, [self.status.revision]), *living))
        return tuple(self._view(name, engines) for name in found)

    def _view(self, name: str, engines: Collection[Engine]) -> RevisionView:
        templates, counts = self.of_revision(name), accepted_counts(self.status, name)
        mine = tuple(engine for engine in engines if engine.revision == name)
        if templates is None:
            return RevisionView(name, mine, counts)
        shape = EngineShape(templates.engines.sizes(), templates.engines.host_network)
        # What runs is judged as it was rendered; of both templates the routers' is the younger one,
        # and of the engines both say the same.
        kept = self.templates.kept(name)
        may = kept is not None and allowed(self.owner, kept.router, counts, self.policy)
        return RevisionView(name, mine, counts, shape, allowed=may)

    def _needs_neighbours(self, decided: Decided) -> bool:
        """Return whether ports must be known that others hold, and are not yet."""
        if self.host_ports.neighbours is not None:
            return False
        revisions = {creation.revision for creation in decided.step.creations}
        views = decided.views
        shapes = [shape for name in revisions if (shape := view_of(views, name).shape) is not None]
        return any(s.host_network for s in shapes) or waits_for_node(views, self.now)

    async def _try(self, decided: Decided, tried: set[tuple[str, str]]) -> list[Refusal]:
        """Try what is new in a step and was not tried yet; give what is refused."""
        step, decision = decided.step, decided.decision
        if isinstance(decision, Freeze):
            return []
        target = decision.target.revision
        replaces = step.course.waits and bool(step.deletions)
        pods = self._samples(target, step) if replaces else self.pods(step)
        by_role = {pod["metadata"]["labels"][names.LABEL_ROLE]: pod for pod in pods}
        new = {role: pod for role, pod in by_role.items() if (target, role) not in tried}
        tried.update((target, role) for role in new)
        freed = bool(step.deletions or self.undiagnosed) or any(
            engine.within_grace(self.now) for engine in engines_of(decided.views)
        )
        found = await try_engines(
            self.kube, self.owner.uid, target, list(new.values()), quota_is_freed=freed
        )
        if replaces and (target, "children") not in tried and not found:
            tried.add((target, "children"))
            found = await self._try_children(target)
        return found

    async def _try_children(self, revision: str) -> list[Refusal]:
        templates = self.of_revision(revision)
        if templates is None:
            return []
        whole = children(
            self.owner, [templates], [templates], revision, self.templates.installation
        )
        return await try_children(self.kube, self.owner, revision, self.world, whole)

    def _samples(self, revision: str, step: Step) -> list[Object]:
        """Build an engine per role of the revision to come, before another is stopped for it."""
        view = self.of_revision(revision)
        if view is None:
            return []
        start = self.ports.start
        return [
            self._pod(revision, role, names.engine_pod(self.owner.name, role, step.cursor), start)
            for role in ROLES
        ]

"""What a pass is going to do with engines: the planners' word, tried on the API server.

The planners are pure. Around them stands what they need to be asked well: which template counts,
which ports others hold, what the API server would refuse, and what the admin allows by now.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from moriio_operator.admission.network import port_range
from moriio_operator.admission.policy import Policy
from moriio_operator.api import names
from moriio_operator.api.deployment import Owner
from moriio_operator.api.ports import PortRange
from moriio_operator.api.problem import Problem
from moriio_operator.api.status import Status
from moriio_operator.build.engine_pod import incarnation
from moriio_operator.build.revision_template import Sealed
from moriio_operator.control.dry_run import rehearse
from moriio_operator.control.host_ports import Surroundings
from moriio_operator.control.pods import HELD_RETRY_S
from moriio_operator.control.templates import Templates
from moriio_operator.control.templates import allowed as permitted
from moriio_operator.facts.terms import ROLES
from moriio_operator.kube.client import Kube
from moriio_operator.kube.objects import Object
from moriio_operator.observe.engine import Engine
from moriio_operator.plan import engines as engine_planner
from moriio_operator.plan.engines import EnginePlan, Room
from moriio_operator.plan.neighbours import unplaced, without_doubles

# On the host network all others wait while one pass creates its engines.
_HOST_BIRTHS = 16
_REST_S = 0.1


@dataclass(slots=True)
class Planning:
    """The plans of one pass."""

    kube: Kube
    owner: Owner
    status: Status
    engines: list[Engine]
    wished: str
    templates: Templates
    around: Surroundings
    ports: PortRange
    policy: Policy
    now: datetime

    async def wish(self, problems: list[Problem]) -> EnginePlan:
        """Plan for the wish, without the engines that the API server would refuse now."""
        seal = self.templates.engines(self.wished)
        plan = await self._placed(
            seal,
            lambda: engine_planner.plan(
                self.owner,
                self.status,
                self.engines,
                self.wished,
                self._room(seal),
                self.now,
            ),
        )
        return await self._rehearsed(plan, problems)

    async def _placed(self, seal: Sealed, planned: Callable[[], EnginePlan]) -> EnginePlan:
        """Plan; where ports are shared with others, plan again with what they hold."""
        plan = planned()
        if not seal.host_network or not (plan.births or unplaced(self.engines)):
            return plan
        self.engines = without_doubles(self.engines, await self.around.look())
        return _first(planned(), _HOST_BIRTHS)

    def _room(self, seal: Sealed) -> Room:
        """Say where ports are found; the range is today's, whatever revision they are for."""
        others = [engine.ports for engine in self.around.engines]
        ports = port_range(self.owner.spec.network, self.ports)
        return Room(ports, seal.sizes(), others)

    async def keep(self) -> EnginePlan:
        """Keep whole what ran, while the spec cannot be acted on; but not against the admin."""
        recorded = next((entry.revision for entry in self.status.roles), "")
        seals = self.templates.kept(recorded)
        strange = any(engine.revision != recorded for engine in self.engines)
        if seals is None or strange or not self.allowed(seals):
            return self.hold()
        engines, _ = seals
        plan = await self._placed(
            engines,
            lambda: engine_planner.keep(
                self.owner,
                self.status,
                self.engines,
                recorded,
                self._room(engines),
                self.now,
            ),
        )
        # What is refused of it has no better words than what the wish was refused with.
        return await self._rehearsed(plan, [])

    def allowed(self, seals: tuple[Sealed, Sealed]) -> bool:
        """Tell whether the admin allows by now what was rendered then, in its number."""
        # The routers' template is the younger one; of the engines both tell the same.
        _, router = seals
        counts = engine_planner.recorded_counts(self.status, router.revision)
        return permitted(self.owner, router, counts, self.policy)

    def hold(self) -> EnginePlan:
        """Change nothing."""
        return engine_planner.hold(self.owner, self.status, self.engines, self.wished, self.now)

    def pods(self, plan: EnginePlan) -> list[Object]:
        """Build the engines that a plan makes."""
        templates = self.templates.engines(plan.revision).templates
        return [
            incarnation(self.owner, birth.pod, templates[birth.role], birth.ports.base)
            for birth in plan.births
        ]

    async def _rehearsed(self, plan: EnginePlan, problems: list[Problem]) -> EnginePlan:
        """Try the engines to come; give the plan without those that cannot come now."""
        verdict = await rehearse(self.kube, self.pods(plan) or self._samples(plan))
        if not (verdict.problems or verdict.over_quota):
            return plan
        problems += verdict.problems
        # Engines that are about to stop give their quota back, so a full one is worth waiting for.
        frees = plan.stops or any(e.stops_in_time(self.now) for e in self.engines)
        if not frees:
            problems += verdict.over_quota
        wake_s = HELD_RETRY_S if frees and verdict.over_quota else plan.wake_after_s
        births = tuple(b for b in plan.births if b.role not in verdict.refused)
        cursor = plan.cursor if births else self.hold().cursor
        return replace(plan, births=births, cursor=cursor, wake_after_s=wake_s)

    def _samples(self, plan: EnginePlan) -> list[Object]:
        """Build an engine a role of the revision to come, before the old one is stopped for it."""
        if not (plan.draining and plan.stops):
            return []
        templates = self.templates.engines(plan.revision).templates
        return [
            incarnation(
                self.owner,
                names.engine_pod(self.owner.name, role, plan.cursor),
                templates[role],
                self.ports.start,
            )
            for role in ROLES
        ]


def _first(plan: EnginePlan, most: int) -> EnginePlan:
    """Give a plan of so many births at most; the next pass goes on with the rest."""
    if len(plan.births) <= most:
        return plan
    births = plan.births[:most]
    return replace(plan, births=births, cursor=births[-1].cursor, wake_after_s=_REST_S)

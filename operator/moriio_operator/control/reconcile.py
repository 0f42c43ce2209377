"""One pass over one PDDeployment: observe, validate, plan, build, apply, report.

The order of writes is the crash safety: templates, Services, rights and routers first, then the
status with the port cursor, then engines. Whoever stops between any two of them leaves a state
that the next pass completes. Before the first of them stands a write of the status that is
conditional on the version that was read, so a pass over a stale reading changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import structlog
from pydantic import ValidationError

from moriio_operator.admission.policy import Policy
from moriio_operator.admission.validate import problems as validate
from moriio_operator.api import names
from moriio_operator.api.deployment import Owner
from moriio_operator.api.ports import PortRange
from moriio_operator.api.problem import Problem
from moriio_operator.api.status import Status
from moriio_operator.build.children import Installation, children
from moriio_operator.control.child_cache import Knowledge
from moriio_operator.control.children import Hands, bring_about, prune
from moriio_operator.control.descriptions import Comparison, Descriptions
from moriio_operator.control.host_ports import Surroundings
from moriio_operator.control.loop import Next
from moriio_operator.control.observe import World, observe
from moriio_operator.control.planning import Planning
from moriio_operator.control.pods import HELD_RETRY_S, create, stop, with_logs
from moriio_operator.control.queue import Key
from moriio_operator.control.status_writer import Record
from moriio_operator.control.templates import Templates
from moriio_operator.kube.client import Kube
from moriio_operator.kube.errors import ApiError
from moriio_operator.observe.engine import Engine, from_pod, of_no_revision
from moriio_operator.plan.engines import EnginePlan
from moriio_operator.plan.revision import revision as revision_of
from moriio_operator.report import events
from moriio_operator.report.status import report

log = structlog.get_logger(__name__)

# What was just created says a lot in its first moments, and nothing to act on.
BIRTH_REST_S = 2.0
# A refused spec is tried again now and then: a quota or a foreign object may be gone by then.
REFUSED_RETRY_S = 30.0


@dataclass(frozen=True, slots=True)
class Reconciler:
    """What passes share: the API, the admin's decisions, the clock."""

    kube: Kube
    policy: Policy
    installation: Installation
    ports: PortRange
    now: Callable[[], datetime]
    # Where engines of ours may run; empty for the whole cluster.
    namespaces: Sequence[str] = ()
    knowledge: Knowledge = field(default_factory=Knowledge)
    descriptions: Descriptions = field(default_factory=Descriptions)
    # Held by the one pass that gives out ports on the host network.
    host_ports: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def __call__(self, key: Key) -> Next:
        """Do one pass; tell when to look again."""
        try:
            return await self._once(key)
        except BaseException:
            # Whatever was thought to be known may be why.
            self.knowledge.forget(key)
            raise

    async def _once(self, key: Key) -> Next:
        world = await observe(self.kube, self.knowledge, key)
        if world is None:
            self.descriptions.forget(key)
            return Next()
        try:
            owner = Owner.from_object(world.resource)
        except ValidationError as error:
            # Stored under another CRD; the API server's schema keeps this from happening anew.
            log.warning("unreadable", key=str(key), error=str(error.errors(include_input=False)))
            return Next(REFUSED_RETRY_S)
        around = Surroundings(self.kube, self.host_ports, self.namespaces, owner.uid)
        async with around:
            return await _Pass(self, world, owner, around).run()


class _Pass:
    """One pass, with what it read and decided."""

    def __init__(
        self, reconciler: Reconciler, world: World, owner: Owner, around: Surroundings
    ) -> None:
        self.kube = reconciler.kube
        self.settings = reconciler
        self.world = world
        self.owner = owner
        self.status = Status.from_object(world.resource)
        self.wished = revision_of(owner.spec)
        self.now = reconciler.now()
        self.record = Record(self.kube, world.resource)
        self.seals = world.seals()
        # What should go and cannot; it keeps nothing else from its way.
        self.leftovers: list[Problem] = []
        self.comparison = Comparison()
        self.planning = Planning(
            kube=self.kube,
            owner=owner,
            status=self.status,
            engines=_engines(world, self.status, self.wished),
            wished=self.wished,
            templates=Templates(world, owner, reconciler.installation),
            around=around,
            ports=reconciler.ports,
            policy=reconciler.policy,
            now=self.now,
        )

    async def run(self) -> Next:
        planning = self.planning
        planning.engines = await with_logs(self.kube, self.owner, self.status, planning.engines)
        self.comparison = await self.settings.descriptions.compare(
            self.kube, self.owner, planning.engines, self.now
        )
        problems = validate(self.owner, self.settings.policy, self.settings.ports)
        plan = None if problems else await planning.wish(problems)
        acts = plan is not None and (not problems or self._lives(plan))
        if plan is None or not acts:
            plan = await planning.keep()
        wished = acts and not plan.draining
        refused = await self._children(plan, wished=wished)
        problems += refused
        if refused and wished and not self._lives(plan):
            await self._report(planning.hold(), problems)
            return Next(HELD_RETRY_S)
        problems += self.leftovers
        await self._report(plan, problems)
        if plan.stops or plan.births:
            await self.record.fence()
        # What stops may give back the quota or the GPUs that what starts needs.
        waits = [
            plan.wake_after_s,
            self.comparison.again_s,
            REFUSED_RETRY_S if problems else None,
            REFUSED_RETRY_S if plan.exhausted else None,
            HELD_RETRY_S if plan.exhausted and plan.stops else None,
            await stop(self.kube, self.owner, plan.stops),
            await create(self.kube, self.owner, planning.pods(plan)),
        ]
        again_s = min((wait for wait in waits if wait is not None), default=None)
        return Next(again_s, BIRTH_REST_S) if plan.births else Next(again_s)

    def _lives(self, plan: EnginePlan) -> bool:
        """Tell whether the wished revision runs: it is kept whole, whatever else is refused."""
        return not plan.draining and any(e.revision == plan.revision for e in self.planning.engines)

    async def _children(self, plan: EnginePlan, *, wished: bool) -> list[Problem]:
        """Bring about the children of the revision that serves; give what is refused of them.

        Those of a revision that is only kept, or drained, are healed as they were rendered, and
        what else is there is left alone.
        """
        templates = self.planning.templates
        seals = templates.of_wish(self.wished) if wished else templates.kept(plan.serving)
        if seals is None or not (wished or self.planning.allowed(seals)):
            return []
        desired = children(self.owner, plan.serving, *seals, self.settings.installation)
        hands = Hands(self.kube, self.owner, self.settings.knowledge, self.record.fence)
        refused = await bring_about(hands, self.world, desired)
        if refused or not wished:
            return refused
        self.seals = list(seals)
        self.leftovers = await prune(hands, self.world, desired)
        return []

    async def _report(self, plan: EnginePlan, problems: Sequence[Problem]) -> None:
        """Write the status if it changed; it does whenever engines are about to be created."""
        serving = names.router(self.owner.name, plan.serving)
        router = self.world.child("Deployment", serving)
        status = report(
            self.owner,
            self.status,
            self.planning.engines,
            plan,
            self.seals,
            router,
            problems,
            self.comparison.differences,
            self.now,
        )
        if not await self.record.write(status):
            return
        for happening in (
            *events.of_transitions(self.status, status),
            *events.of_ends(plan.newly_ended),
        ):
            # Without its note, which may hold the end of an engine's log: that is for those who
            # may look into its namespace.
            log.info("event", key=self.owner.key, type=happening.type, reason=happening.reason)
            await self._post(happening)

    async def _post(self, happening: events.Happening) -> None:
        """Post an Event; one that is lost must not cost the pass."""
        try:
            event = events.event(self.world.resource, happening, self.now)
            await self.kube.create(event, names.FIELD_MANAGER)
        except ApiError as error:
            log.warning("event not posted", key=self.owner.key, error=str(error))


def _engines(world: World, status: Status, wished: str) -> list[Engine]:
    """Read the engines; a pod that does not read as one, or was taken aside, is left alone."""
    recorded = {engine.pod: engine.revision for engine in status.engines}
    known = {wished, *(seal.revision for seal in world.seals())}
    found = []
    for pod in world.pods:
        engine = from_pod(pod)
        if engine is None:
            log.info("left alone", pod=f"{pod['metadata']['namespace']}/{pod['metadata']['name']}")
        elif engine.revision in known or recorded.get(engine.pod) == engine.revision:
            found.append(engine)
        else:
            found.append(of_no_revision(engine, recorded.get(engine.pod, wished)))
    return found

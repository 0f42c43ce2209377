"""One pass over one PDDeployment: observe, validate, plan, build, apply, report.

The order of writes is the crash safety: Services, rights and routers first, then the status with
the port cursor (conditional on the version that was read), then engines. Whoever stops between
any two of them leaves a state that the next pass completes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import structlog
from pydantic import ValidationError

from moriio_operator.api import names
from moriio_operator.api.deployment import Owner
from moriio_operator.api.status import Status
from moriio_operator.build.children import Installation, children
from moriio_operator.build.engine import engine_pod
from moriio_operator.contract.ports import PortBlock
from moriio_operator.control import events
from moriio_operator.control.children import bring_about
from moriio_operator.control.observe import World, observe
from moriio_operator.control.queue import Key
from moriio_operator.control.rehearse import rehearse
from moriio_operator.control.status import report
from moriio_operator.kube import kinds
from moriio_operator.kube.client import Kube, Object
from moriio_operator.kube.errors import (
    AlreadyExistsError,
    ApiError,
    ForbiddenError,
    InvalidError,
)
from moriio_operator.plan import engines as engine_planner
from moriio_operator.plan.engine import Engine, from_pod, with_last_words
from moriio_operator.plan.engines import EnginePlan
from moriio_operator.plan.policy import Policy
from moriio_operator.plan.ports import PortRange, PortsExhaustedError
from moriio_operator.plan.problem import Problem
from moriio_operator.plan.revision import revision as revision_of
from moriio_operator.plan.validate import problems as validate

log = structlog.get_logger(__name__)

# A refused spec is tried again now and then: a quota or a foreign object may be gone by then.
REFUSED_RETRY_S = 30.0
# A name is often held for a moment only, by what the garbage collector is about to take.
HELD_RETRY_S = 5.0
# Lines of the log of an engine that ended without a termination message.
LAST_LINES = 20


@dataclass(frozen=True, slots=True)
class Reconciler:
    """What passes share: the API, the admin's decisions, the clock."""

    kube: Kube
    policy: Policy
    installation: Installation
    ports: PortRange
    now: Callable[[], datetime]

    async def __call__(self, key: Key) -> float | None:
        """Do one pass; give the seconds after which to look again, if no event comes before."""
        world = await observe(self.kube, key)
        if world is None:
            return None
        try:
            owner = Owner.from_object(world.resource)
        except ValidationError as error:
            # Stored under another CRD; the API server's schema keeps this from happening anew.
            log.warning("unreadable", key=str(key), error=str(error.errors(include_input=False)))
            return REFUSED_RETRY_S
        return await _Pass(self, world, owner).run()


class _Pass:
    """One pass, with what it read and decided."""

    def __init__(self, reconciler: Reconciler, world: World, owner: Owner) -> None:
        self.kube = reconciler.kube
        self.settings = reconciler
        self.world = world
        self.owner = owner
        self.status = Status.from_object(world.resource)
        self.engines = _engines(world)
        self.now = reconciler.now()

    async def run(self) -> float | None:
        self.engines = [await self._heard(engine) for engine in self.engines]
        problems = validate(self.owner, self.settings.policy)
        plan = None if problems else self._plan(problems)
        if plan is not None:
            plan = await self._rehearsed(plan, problems)
        if plan is None or (problems and not self._lives(plan)):
            await self._report(self._hold(), problems)
            return REFUSED_RETRY_S
        if not plan.draining:
            desired = children(self.owner, plan.revision, self.settings.installation)
            problems += await bring_about(self.kube, self.owner, self.world, desired)
            if problems and not self._lives(plan):
                await self._report(self._hold(), problems)
                return HELD_RETRY_S
        await self._report(plan, problems)
        # What stops may give back the quota or the GPUs that what starts needs.
        waits = [
            plan.wake_after_s,
            REFUSED_RETRY_S if problems else None,
            await self._stop(plan.stops),
            await self._create(self._pods(plan)),
        ]
        return min((wait for wait in waits if wait is not None), default=None)

    async def _heard(self, engine: Engine) -> Engine:
        """Read the log of an engine that ended without a word, once, before its pod goes."""
        if engine.mute is None or not engine_planner.newly_ended(self.status, [engine]):
            return engine
        try:
            log_tail = await self.kube.log_tail(
                self.owner.namespace, engine.pod, engine.mute, LAST_LINES
            )
        except ApiError:
            return engine
        return with_last_words(engine, log_tail)

    def _lives(self, plan: EnginePlan) -> bool:
        """Tell whether the wished revision runs: it is kept whole, whatever else is refused."""
        return not plan.draining and any(e.revision == plan.revision for e in self.engines)

    def _plan(self, problems: list[Problem]) -> EnginePlan | None:
        try:
            return engine_planner.plan(
                self.owner,
                self.status,
                self.engines,
                revision_of(self.owner.spec),
                self.settings.ports,
                self.now,
            )
        except PortsExhaustedError as error:
            remedy = "the admin widens the chart value ports"
            problems.append(Problem("PortsExhausted", "", f"{error}: {remedy}"))
            return None

    def _hold(self) -> EnginePlan:
        revision = revision_of(self.owner.spec)
        return engine_planner.hold(self.owner, self.status, self.engines, revision, self.now)

    def _pods(self, plan: EnginePlan) -> list[Object]:
        return [
            engine_pod(self.owner, birth.pod, birth.role, plan.revision, birth.ports)
            for birth in plan.births
        ]

    async def _rehearsed(self, plan: EnginePlan, problems: list[Problem]) -> EnginePlan:
        """Try the engines to come; give the plan without those that cannot come now."""
        verdict = await rehearse(self.kube, self._pods(plan) or self._samples(plan))
        if not (verdict.problems or verdict.over_quota):
            return plan
        problems += verdict.problems
        # Engines that are about to stop give their quota back, so a full one is worth waiting for.
        frees = plan.stops or any(e.stops_in_time(self.now) for e in self.engines)
        if not frees:
            problems += verdict.over_quota
        wake_s = HELD_RETRY_S if frees and verdict.over_quota else plan.wake_after_s
        births = tuple(b for b in plan.births if b.role not in verdict.refused)
        cursor = plan.cursor if births else self._hold().cursor
        return replace(plan, births=births, cursor=cursor, wake_after_s=wake_s)

    def _samples(self, plan: EnginePlan) -> list[Object]:
        """Build an engine a role of the revision to come, before the old one is stopped for it."""
        if not (plan.draining and plan.stops):
            return []
        return [
            engine_pod(
                self.owner,
                names.engine_pod(self.owner.name, role, plan.cursor),
                role,
                plan.revision,
                PortBlock(self.settings.ports.start, self.owner.spec.role(role).parallelism.tensor),
            )
            for role in names.ROLES
        ]

    async def _report(self, plan: EnginePlan, problems: Sequence[Problem]) -> None:
        """Write the status if it changed, or if engines are about to be created.

        The write is conditional on the version that was read, so a pass over a stale reading
        fails here, before it creates anything.
        """
        serving = names.router(self.owner.name, plan.serving)
        router = self.world.child("Deployment", serving)
        status = report(self.owner, self.status, self.engines, plan, router, problems, self.now)
        wanted = status.to_object()
        if wanted == (self.world.resource.get("status") or {}):
            return
        metadata = self.world.resource["metadata"]
        body = {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "metadata": {
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "resourceVersion": metadata["resourceVersion"],
            },
            "status": wanted,
        }
        await self.kube.apply(body, names.STATUS_MANAGER, "status")
        for happening in (
            *events.of_transitions(self.status, status),
            *events.of_ends(plan.newly_ended),
        ):
            log.info("event", key=self.owner.key, reason=happening.reason, note=happening.note)
            await self._post(happening)

    async def _post(self, happening: events.Happening) -> None:
        """Post an Event; one that is lost must not cost the pass."""
        try:
            event = events.event(self.world.resource, happening, self.now)
            await self.kube.create(event, names.FIELD_MANAGER)
        except ApiError as error:
            log.warning("event not posted", key=self.owner.key, error=str(error))

    async def _create(self, pods: Sequence[Object]) -> float | None:
        """Create engines; one that is refused midway is told by the next pass's rehearsal."""
        for pod in pods:
            name = pod["metadata"]["name"]
            try:
                await self.kube.create(pod, names.FIELD_MANAGER)
            except AlreadyExistsError:
                # Our own twin after a lost answer, or a stranger; the next pass sees which, and
                # goes on to the next block if it is a stranger.
                log.warning("engine exists", key=self.owner.key, pod=name)
                continue
            except (ForbiddenError, InvalidError) as error:
                log.warning("engine refused", key=self.owner.key, pod=name, error=str(error))
                return HELD_RETRY_S
            log.info("engine created", key=self.owner.key, pod=name)
        return None

    async def _stop(self, engines: Sequence[Engine]) -> float | None:
        """Stop engines; one that cannot be stopped must not keep others from being created."""
        again_s = None
        for engine in engines:
            try:
                await self.kube.delete(kinds.POD, self.owner.namespace, engine.pod, engine.uid)
            except ApiError as error:
                log.warning("not stopped", key=self.owner.key, pod=engine.pod, error=str(error))
                again_s = HELD_RETRY_S
                continue
            log.info("engine stopped", key=self.owner.key, pod=engine.pod)
        return again_s


def _engines(world: World) -> list[Engine]:
    """Read the engines; a pod that does not read as one is left alone."""
    found = []
    for pod in world.pods:
        engine = from_pod(pod)
        if engine is None:
            log.warning("not an engine", pod=pod["metadata"]["name"])
        else:
            found.append(engine)
    return found

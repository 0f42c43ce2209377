"""One pass over one PDDeployment, step by step.

    1 observe    read the object and its engines, live, and what is known of its other children
    2 judge      act on the spec, keep what was accepted last, or freeze: one decision
    3 plan       which engines to create and to delete, and which revisions live
    4 dry-run    what would be new, before anything is stopped or spent for it
    5 apply      templates, Services, rights and routers; prune what belongs to no living revision
    6 record     the status, with the port cursor of the engines that are about to be created
    7 act        delete engines, then create engines
    8 report     Events, and beside the pass the logs of engines that ended without a message

The order of writes is the crash safety: whoever stops between any two of them leaves a state that
the next pass completes. Before the first of them stands a write of the status that is conditional
on the version that was read, so a pass over a stale reading changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
from moriio_operator.build.children import Templates as RevisionTemplates
from moriio_operator.control.apply import ChildWriter, apply_children, prune
from moriio_operator.control.child_cache import ChildCache
from moriio_operator.control.decide import Decided, Decider
from moriio_operator.control.diagnosis import Diagnosis
from moriio_operator.control.engine_pods import HELD_RETRY_S, create, delete
from moriio_operator.control.host_ports import HostPorts, HostPortTable
from moriio_operator.control.loop import Next
from moriio_operator.control.observe import World, observe
from moriio_operator.control.queue import Key
from moriio_operator.control.status_writer import StatusWriter
from moriio_operator.control.templates import Templates
from moriio_operator.facts.terms import ROLES
from moriio_operator.kube.client import Kube
from moriio_operator.kube.errors import ApiError
from moriio_operator.kube.objects import Object
from moriio_operator.observe.engine import Engine, read_engines
from moriio_operator.plan.decision import Act, Freeze, Refusal, Target
from moriio_operator.plan.revision import revision as revision_of
from moriio_operator.report import events
from moriio_operator.report.model_config import differences
from moriio_operator.report.status import Outcome, report
from moriio_operator.stack import table as stacks

log = structlog.get_logger(__name__)

# What was just created reports a lot in its first moments, and nothing to act on.
CREATED_REST_S = 2.0
# A refused spec is tried again now and then: a quota or a foreign object may be gone by then.
REFUSED_RETRY_S = 30.0


@dataclass(frozen=True, slots=True)
class Reconciler:
    """What passes share: the API, the admin's decisions, the clock, and what is kept in memory."""

    kube: Kube
    policy: Policy
    installation: Installation
    ports: PortRange
    now: Callable[[], datetime]
    diagnosis: Diagnosis
    # Where engines of ours may run; empty for the whole cluster.
    namespaces: Sequence[str] = ()
    cache: ChildCache = field(default_factory=ChildCache)
    host_ports: HostPortTable = field(default_factory=HostPortTable)

    async def __call__(self, key: Key) -> Next:
        """Do one pass; say when to look again."""
        try:
            return await self._once(key)
        except BaseException:
            # Whatever was thought to be known may be why.
            self.cache.forget(key)
            raise

    async def _once(self, key: Key) -> Next:
        world = await observe(self.kube, self.cache, key)
        if world is None:
            self.diagnosis.forget(key)
            return Next()
        try:
            owner = Owner.from_object(world.resource)
        except ValidationError as error:
            # Stored under another CRD; the API server's schema keeps this from happening anew.
            log.warning("unreadable", key=str(key), error=str(error.errors(include_input=False)))
            return Next(REFUSED_RETRY_S)
        host_ports = HostPorts(self.kube, self.host_ports, self.namespaces, owner.uid)
        try:
            return await _Pass(self, key, world, owner, host_ports).run()
        finally:
            host_ports.close()


@dataclass(frozen=True, slots=True)
class _Applied:
    """What became of the children."""

    # The templates that the living revisions have now.
    stored: tuple[RevisionTemplates, ...]
    refusals: tuple[Refusal, ...] = ()
    # What should go and cannot; it keeps nothing else from its way.
    leftovers: tuple[Problem, ...] = ()


class _Pass:
    """One pass, with what it read; what it decides goes from step to step as a value."""

    def __init__(
        self, shared: Reconciler, key: Key, world: World, owner: Owner, host_ports: HostPorts
    ) -> None:
        self.shared, self.kube, self.key = shared, shared.kube, key
        self.world, self.owner, self.now = world, owner, shared.now()
        self.status = Status.from_object(world.resource)
        self.record = StatusWriter(self.kube, world.resource)
        self.writer = ChildWriter(self.kube, owner, shared.cache, self.record.assert_unchanged)
        self.stack = stacks.of(owner.spec)
        counts = {role: owner.spec.role(role).replicas for role in ROLES}
        self.asked = Target(revision_of(owner.spec), counts)
        read = read_engines(
            world.pods, self.status, world.revisions(), self.asked.revision, self.stack
        )
        self.engines = shared.diagnosis.applied(key, read, self.stack)
        self.decider = Decider(
            kube=self.kube,
            owner=owner,
            status=self.status,
            world=world,
            templates=Templates(world, owner, self.status, shared.installation),
            host_ports=host_ports,
            policy=shared.policy,
            ports=shared.ports,
            now=self.now,
            asked=self.asked,
            problems=validate(owner, shared.policy, shared.ports),
            undiagnosed=shared.diagnosis.pending(key, self.engines),
        )

    async def run(self) -> Next:
        """Take the steps after `observe`, in their order."""
        # 2 to 4
        decided = await self.decider.decide(self.engines)
        # 5
        applied = await self._apply(decided)
        if applied.refusals:
            # Known too late for the dry run, so it is judged again what can go on without them.
            refusals = (*decided.refusals, *applied.refusals)
            decided = await self.decider.decide(self.engines, refusals)
        problems = (*decided.decision.problems, *applied.leftovers)
        # 6
        outcome = Outcome(
            decided.decision,
            decided.step,
            decided.views,
            applied.stored,
            problems,
            self._differences(),
        )
        owner = self._as_accepted(decided)
        status = report(owner, self.status, outcome, self._router(decided), self.now)
        changed = await self.record.write(status)
        # 7
        step = decided.step
        if step.deletions or step.creations:
            await self.record.assert_unchanged()
        try:
            # What is deleted may give back the quota or the GPUs that what is created needs.
            not_deleted_s = await delete(self.kube, self.owner, step.deletions)
            not_created_s = await create(self.kube, self.owner, self.decider.pods(step))
        finally:
            # 8, also of a pass that fails here: the status is stored, and no later pass reports it.
            await self._report(status, decided, changed=changed)
        self.shared.cache.passed(self.key, self.record.version, self.world.pods)
        waits = [not_deleted_s, not_created_s, *_waits(decided, applied)]
        again_s = min((wait for wait in waits if wait is not None), default=None)
        return Next(again_s, CREATED_REST_S) if step.creations else Next(again_s)

    async def _apply(self, decided: Decided) -> _Applied:
        """Bring the children of the living revisions about; say what is refused of them."""
        kept = tuple(self._stored_before(decided))
        decision, course = decided.decision, decided.step.course
        if isinstance(decision, Freeze):
            return _Applied(kept)
        target = decision.target.revision
        may = {view.name for view in decided.views if view.allowed}
        if isinstance(decision, Act):
            may.add(target)
        stored = [t for t in self._living(decided) if t.revision in {target, *course.served}]
        served = [t for t in stored if t.revision in course.served]
        healed = [t for t in served if t.revision in may]
        owner, installation = self._as_accepted(decided), self.shared.installation

        def built(served: Sequence[RevisionTemplates]) -> list[Object]:
            return children(owner, stored, served, course.client, installation)

        mine = built([t for t in healed if t.revision == target])
        refused = await apply_children(self.writer, self.world, mine)
        if refused:
            return _Applied(kept, tuple(Refusal(target, None, problem) for problem in refused))
        # What is refused of a revision that goes is no fault of the one that comes.
        others = [child for child in built(healed) if child not in mine]
        leftovers = await apply_children(self.writer, self.world, others)
        # What the admin forbids by now is not healed; it goes when its engines have gone.
        known = {templates.revision for templates in stored}
        unknown = {view.name for view in decided.views if view.lives} - known
        leftovers += await prune(self.writer, self.world, built(served), spared=unknown)
        return _Applied(tuple(stored), leftovers=tuple(leftovers))

    def _as_accepted(self, decided: Decided) -> Owner:
        """Give the PDDeployment; while its spec is refused, with as many routers as there are."""
        router = self._router(decided)
        if isinstance(decided.decision, Act) or router is None:
            return self.owner
        kept = {"replicas": router["spec"]["replicas"]}
        spec = self.owner.spec
        routers = spec.router.model_copy(update=kept)
        return self.owner.model_copy(update={"spec": spec.model_copy(update={"router": routers})})

    def _living(self, decided: Decided) -> list[RevisionTemplates]:
        """Give the templates of all revisions that live, the target as the decision has it."""
        found = []
        for view in decided.views:
            acts = isinstance(decided.decision, Act) and view.name == decided.target
            templates = self.decider.of_revision(view.name) if acts else None
            templates = templates or self.decider.templates.kept(view.name)
            if templates is not None:
                found.append(templates)
        return found

    def _stored_before(self, decided: Decided) -> Iterable[RevisionTemplates]:
        for view in decided.views:
            templates = self.decider.templates.kept(view.name)
            if templates is not None:
                yield templates

    def _differences(self) -> tuple[str, ...]:
        # Engines of an earlier revision had an earlier spec.
        asked = self.asked.revision
        uids = {engine.uid for engine in self.engines if engine.revision == asked}
        return differences(self.owner.spec, self.world.reports, uids)

    def _router(self, decided: Decided) -> Object | None:
        return self.world.child(
            "Deployment", names.router(self.owner.name, decided.step.course.client)
        )

    async def _report(self, status: Status, decided: Decided, *, changed: bool) -> None:
        """Post Events; what they cannot say yet is read in the background, and then posted."""
        undiagnosed = self.decider.undiagnosed
        ended = decided.step.newly_ended if changed else ()
        fresh = {engine.uid for engine in ended}
        for engine in self.engines:
            if engine.uid in undiagnosed:
                report_end = self._post_end if engine.uid in fresh else None
                self.shared.diagnosis.begin(self.key, engine, self.stack, report_end)
        if changed:
            for event in events.of_transitions(self.status, status):
                await self._post(event)
        for engine in ended:
            if engine.uid not in undiagnosed:
                await self._post_end(engine)

    async def _post_end(self, engine: Engine) -> None:
        await self._post(events.of_end(engine))

    async def _post(self, event: events.EventRecord) -> None:
        """Post an Event; one that is lost must not cost the pass."""
        # Without its note, which may hold the end of an engine's log: that is for those who may
        # look into its namespace.
        log.info("event", key=self.owner.key, type=event.type, reason=event.reason)
        try:
            await self.kube.create(
                events.event(self.world.resource, event, self.now), names.FIELD_MANAGER
            )
        except ApiError as error:
            log.warning("event not posted", key=self.owner.key, error=str(error))


def _waits(decided: Decided, applied: _Applied) -> list[float | None]:
    """Give the times after which to look again, as far as no event brings the next pass."""
    step = decided.step
    problems = (*decided.decision.problems, *applied.leftovers)
    childless = applied.refusals and not isinstance(decided.decision, Act)
    freed = any(refusal.problem is None for refusal in decided.refusals)
    return [
        step.wake_after_s,
        REFUSED_RETRY_S if problems or step.exhausted else None,
        HELD_RETRY_S if step.exhausted and step.deletions else None,
        HELD_RETRY_S if freed or childless else None,
    ]

"""The whole status from what was observed and decided. Pure.

It is written at most once per pass, before the pass creates or deletes engines: so the cursor is
stored before a pod uses it, and an engine's end is counted before its pod goes. Engines that the
pass is about to delete are reported as what they are from then on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from moriio_operator.admission.network import remedy
from moriio_operator.api.deployment import Owner
from moriio_operator.api.problem import Problem
from moriio_operator.api.status import (
    ENGINES_MAX,
    Condition,
    ConditionType,
    EngineState,
    EngineStatus,
    PortAllocation,
    RevisionStatus,
    RoleStatus,
    Status,
    Summary,
)
from moriio_operator.build.children import Templates
from moriio_operator.build.services import endpoint
from moriio_operator.facts.terms import ROLES, Role
from moriio_operator.observe.engine import Engine
from moriio_operator.plan.decision import Decision, Freeze
from moriio_operator.plan.ports import served
from moriio_operator.plan.step import Step
from moriio_operator.plan.view import RevisionView, view_of
from moriio_operator.report import conditions
from moriio_operator.stack import table as stacks

# False, they keep nothing from serving.
_ASIDE = (ConditionType.PROGRESSING, ConditionType.CONTRACT_CHECKED)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a pass decided and did, as far as the status reports it."""

    decision: Decision
    step: Step
    views: Sequence[RevisionView]
    # The templates that are stored for the living revisions.
    templates: Sequence[Templates] = ()
    # Those of the decision, and what could not be pruned.
    problems: Sequence[Problem] = ()
    # What engines report of their model otherwise than the spec declares it.
    differences: Sequence[str] = ()

    @property
    def revision(self) -> str | None:
        """The revision that was accepted last; None if none was yet."""
        if isinstance(self.decision, Freeze):
            return self.decision.revision
        return self.decision.target.revision

    @property
    def counts(self) -> Mapping[Role, int]:
        """The counts that were accepted last; empty if none were yet."""
        if not isinstance(self.decision, Freeze):
            return self.decision.target.counts
        return view_of(self.views, self.decision.revision or "").accepted or {}

    def engines(self) -> list[Engine]:
        """Give all engines, those that are deleted now as terminating."""
        deleted = {engine.uid for engine in self.step.deletions}
        return [
            replace(engine, state=EngineState.TERMINATING)
            if engine.uid in deleted and engine.state is not EngineState.ENDED
            else engine
            for view in self.views
            for engine in view.engines
        ]


def report(
    owner: Owner,
    old: Status,
    outcome: Outcome,
    router: dict[str, Any] | None,
    now: datetime,
) -> Status:
    """Give the status; `router` is the Deployment that clients reach, as it is observed."""
    step, engines = outcome.step, outcome.engines()
    desired = {role: outcome.counts.get(role, owner.spec.role(role).replicas) for role in ROLES}
    mine = [engine for engine in engines if engine.revision == outcome.revision]
    made = conditions.stamped(
        _verdicts(owner, outcome, engines, mine, desired, router, now),
        old.conditions,
        owner.generation,
        now,
    )
    return Status(
        observed_generation=owner.generation,
        port_allocation=PortAllocation(cursor=step.cursor, retired=list(step.retired)),
        revision=outcome.revision,
        endpoint=endpoint(owner),
        summary=_summary(mine, desired, made),
        conditions=made,
        revisions=[_revision(templates) for templates in outcome.templates],
        roles=[
            _role(role, view, outcome, engines)
            for view in outcome.views
            for role in _accepted(view, outcome)
        ],
        engines=_bounded([_engine(engine, old) for engine in engines]),
    )


def _verdicts(
    owner: Owner,
    outcome: Outcome,
    engines: Sequence[Engine],
    mine: Sequence[Engine],
    desired: Mapping[Role, int],
    router: dict[str, Any] | None,
    now: datetime,
) -> list[conditions.Verdict]:
    spec, step = owner.spec, outcome.step
    failures = {role: step.failures_of(outcome.revision or "", role) for role in ROLES}
    roles = [conditions.role_ready(role, mine, desired[role], failures[role]) for role in ROLES]
    reached = [engine for engine in engines if engine.revision == step.course.client]
    serve = {engine.role for engine in reached if engine.state is EngineState.READY}
    router_ready = conditions.router_ready(
        router, spec.router.replicas, engines_serve=serve == set(ROLES)
    )
    settled = all(verdict.true for verdict in roles) and _settled(router, spec.router.replicas)
    return [
        conditions.accepted(outcome.problems),
        conditions.contract_checked(stacks.of(spec).assess(spec), outcome.differences),
        conditions.ports_allocated(step, mine, desired, failures, remedy(spec.network)),
        *roles,
        router_ready,
        conditions.progressing(outcome.decision, step, engines, now, settled=settled),
        conditions.ready(roles, router_ready, reached),
    ]


def _settled(router: dict[str, Any] | None, desired: int) -> bool:
    """Return whether all routers are there, and none of an older template."""
    status = (router or {}).get("status") or {}
    counts = (status.get(key) or 0 for key in ("replicas", "updatedReplicas", "readyReplicas"))
    return all(count == desired for count in counts)


def _revision(templates: Templates) -> RevisionStatus:
    """Report which version of the operator rendered what, and which routers' template counts."""
    return RevisionStatus(
        name=templates.revision,
        rendered_by=templates.engines.rendered_by,
        router_rendered_by=templates.router.rendered_by,
        router_template=templates.router.name,
    )


def _accepted(view: RevisionView, outcome: Outcome) -> Mapping[Role, int]:
    """Give the counts that were accepted of a revision, as long as it lives; else none."""
    if view.name == outcome.revision:
        return outcome.counts
    return (view.accepted or {}) if view.lives else {}


def _role(
    role: Role, view: RevisionView, outcome: Outcome, engines: Sequence[Engine]
) -> RoleStatus:
    mine = [e for e in engines if e.role is role and e.revision == view.name]
    failures = outcome.step.failures_of(view.name, role)
    return RoleStatus(
        name=role.value,
        revision=view.name,
        desired=_accepted(view, outcome)[role],
        pods=sum(1 for e in mine if not e.is_leaving),
        ready=sum(1 for e in mine if e.state is EngineState.READY),
        failures=failures.count,
        last_failure_time=conditions.timestamp(failures.time) if failures.time else None,
        last_failure=failures.last,
    )


def _engine(engine: Engine, old: Status) -> EngineStatus:
    return EngineStatus(
        pod=engine.pod,
        role=engine.role.value,
        revision=engine.revision,
        port_base=engine.ports.base,
        ports=engine.ports.size,
        state=engine.state,
        served=served(engine, old),
        node=engine.node,
        address=engine.address,
    )


def _bounded(engines: Sequence[EngineStatus]) -> list[EngineStatus]:
    """Order engines; should there be more than the status holds, those that go are not listed."""
    gone = (EngineState.TERMINATING, EngineState.ENDED)
    kept = sorted(engines, key=lambda engine: engine.state in gone)[:ENGINES_MAX]
    return sorted(kept, key=lambda e: (e.role, int(e.pod.rsplit("-", 1)[1])))


def _summary(
    engines: Sequence[Engine], desired: Mapping[Role, int], made: Sequence[Condition]
) -> Summary:
    def count(role: Role) -> str:
        ready = sum(1 for e in engines if e.role is role and e.state is EngineState.READY)
        return f"{ready}/{desired[role]}"

    false = (c.reason for c in made if c.status == "False" and c.type not in _ASIDE)
    return Summary(prefill=count(Role.PREFILL), decode=count(Role.DECODE), reason=next(false, ""))

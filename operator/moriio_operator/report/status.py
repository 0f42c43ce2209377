"""The whole status from what was observed and planned. Pure.

It is written at most once a pass, before the pass creates or deletes engines: so the cursor is
stored before a pod uses it, and an engine's end is counted before its pod goes.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    RevisionStatus,
    RoleStatus,
    Status,
    Summary,
)
from moriio_operator.build.revision_template import Sealed
from moriio_operator.build.services import endpoint
from moriio_operator.facts.terms import ROLES, Role
from moriio_operator.observe.engine import Engine
from moriio_operator.plan.engines import EnginePlan
from moriio_operator.plan.retired import served
from moriio_operator.report import conditions
from moriio_operator.stack.vllm_moriio.compatibility import assess

# False, they keep nothing from serving.
_ASIDE = (ConditionType.PROGRESSING, ConditionType.CONTRACT_CHECKED)


def report(
    owner: Owner,
    old: Status,
    engines: Sequence[Engine],
    plan: EnginePlan,
    seals: Sequence[Sealed],
    router: dict[str, Any] | None,
    problems: Sequence[Problem],
    differences: Sequence[str],
    now: datetime,
) -> Status:
    """Give the status.

    A spec with problems is not acted on, but what runs goes on running and is reported as it is.
    `differences` are what engines tell of their model otherwise than the spec does.
    """
    made = conditions.stamped(
        _verdicts(owner, engines, plan, router, problems, differences, now),
        old.conditions,
        owner.generation,
        now,
    )
    return Status(
        observed_generation=owner.generation,
        port_cursor=plan.cursor,
        retired_ports=list(plan.retired),
        revision=plan.revision,
        endpoint=endpoint(owner),
        summary=_summary(plan, engines, made),
        conditions=made,
        revisions=_revisions(seals),
        roles=[_role(role, engines, plan) for role in ROLES],
        engines=[_engine(engine, old) for engine in _sorted(engines)],
    )


def _verdicts(
    owner: Owner,
    engines: Sequence[Engine],
    plan: EnginePlan,
    router: dict[str, Any] | None,
    problems: Sequence[Problem],
    differences: Sequence[str],
    now: datetime,
) -> list[conditions.Verdict]:
    spec = owner.spec
    serving = [engine for engine in engines if engine.revision == plan.serving]
    roles = [
        conditions.role_ready(role, serving, plan.desired_of(role), plan.failures_of(role))
        for role in ROLES
    ]
    serve = {engine.role for engine in serving if engine.state is EngineState.READY}
    router_ready = conditions.router_ready(
        router, spec.router.replicas, engines_serve=serve == set(ROLES)
    )
    settled = all(verdict.true for verdict in roles) and _settled(router, spec.router.replicas)
    return [
        conditions.accepted(problems),
        conditions.contract_checked(assess(spec), differences),
        conditions.ports_allocated(plan, serving, remedy(spec.network)),
        *roles,
        router_ready,
        conditions.halted()
        if problems
        else conditions.progressing(plan, engines, now, settled=settled),
        conditions.ready(roles, router_ready, serving),
    ]


def _settled(router: dict[str, Any] | None, desired: int) -> bool:
    """Tell whether all routers are there, and none of an older template."""
    status = (router or {}).get("status") or {}
    counts = (status.get(key) or 0 for key in ("replicas", "updatedReplicas", "readyReplicas"))
    return all(count == desired for count in counts)


def _revisions(seals: Sequence[Sealed]) -> list[RevisionStatus]:
    """Tell which version of the operator rendered what; a router's template is an addition."""
    routers = {seal.revision: seal.rendered_by for seal in seals if seal.of_router}
    return [
        RevisionStatus(
            name=seal.revision,
            rendered_by=seal.rendered_by,
            router_rendered_by=routers.get(seal.revision),
        )
        for seal in sorted(seals, key=lambda seal: seal.name)
        if not seal.of_router
    ]


def _role(role: Role, engines: Sequence[Engine], plan: EnginePlan) -> RoleStatus:
    mine = [e for e in engines if e.role is role and e.revision == plan.revision]
    failures = plan.failures_of(role)
    return RoleStatus(
        name=role.value,
        revision=plan.revision,
        desired=plan.desired_of(role),
        pods=sum(1 for e in mine if not e.leaves),
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


def _sorted(engines: Sequence[Engine]) -> list[Engine]:
    """Order engines; should there be more than the status holds, those that leave go unlisted."""
    kept = sorted(engines, key=lambda engine: engine.leaves)[:ENGINES_MAX]
    return sorted(kept, key=lambda engine: (engine.role, engine.serial))


def _summary(plan: EnginePlan, engines: Sequence[Engine], made: Sequence[Condition]) -> Summary:
    def count(role: Role) -> str:
        ready = sum(1 for e in engines if e.role is role and e.state is EngineState.READY)
        return f"{ready}/{plan.desired_of(role)}"

    false = (c.reason for c in made if c.status == "False" and c.type not in _ASIDE)
    return Summary(prefill=count(Role.PREFILL), decode=count(Role.DECODE), reason=next(false, ""))

"""Conditions from what was observed. Pure; a condition's time moves only when its status does.

Each condition says one thing, with a reason for programs and a message for people: which pod,
what it waits for, what to do. `Ready` is true only if a client's request would be served now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from moriio_operator.api.problem import Problem
from moriio_operator.api.reasons import Reason
from moriio_operator.api.status import Condition, ConditionType, EngineState
from moriio_operator.facts.terms import ROLES, Role
from moriio_operator.observe.engine import Engine
from moriio_operator.plan.crashes import CrashRecord, delay_s
from moriio_operator.plan.decision import Decision, Freeze, Keep
from moriio_operator.plan.step import Step
from moriio_operator.stack.stack import Assessment

_LONGEST = 4096
_PLACED = (EngineState.STARTING, EngineState.READY, EngineState.UNREADY)
_PORT_FAILURES = (Reason.HOST_PORT_TAKEN, Reason.PORT_IN_USE)
_READY_TYPES = {Role.PREFILL: ConditionType.PREFILL_READY, Role.DECODE: ConditionType.DECODE_READY}


@dataclass(frozen=True, slots=True)
class Verdict:
    """A condition before it is stamped with time and generation."""

    type: ConditionType
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str

    @property
    def true(self) -> bool:
        """Whether the status is True."""
        return self.status == "True"


def accepted(problems: Sequence[Problem]) -> Verdict:
    """Judge whether the spec is acted on; every problem is reported, not only the first."""
    if not problems:
        return Verdict(ConditionType.ACCEPTED, "True", Reason.ACCEPTED, "the spec is acted on")
    text = "; ".join(str(problem) for problem in problems)
    return Verdict(ConditionType.ACCEPTED, "False", problems[0].reason, text)


def contract_checked(assessment: Assessment, differences: Sequence[str]) -> Verdict:
    """Say how far the spec could be checked against what vLLM of its version asks for.

    `differences` are facts that engines tell otherwise: what was checked with them was not.
    """
    kind, version = ConditionType.CONTRACT_CHECKED, assessment.version
    engine = assessment.engine
    if assessment.too_old:
        text = f"no rules are known for {engine} {version}"
        return Verdict(kind, "False", Reason.VERSION_TOO_OLD, text)
    if differences:
        return Verdict(kind, "False", Reason.FACTS_DIFFER, "; ".join(differences))
    notes = "; ".join(assessment.unchecked)
    if assessment.newer:
        text = (
            f"{engine} is newer than {version}, the newest that this operator knows: the rules of "
            f"{version} are applied; upgrade the operator when one that knows it is out"
        )
        text = "; ".join(filter(None, (text, notes)))
        return Verdict(kind, "False", Reason.VERSION_NEWER, text)
    if assessment.unknown:
        text = (
            f"the image's tag does not tell {engine}'s version, so the rules of {version} are "
            "applied: state it in spec.engine.version (which makes a new revision)"
        )
        text = "; ".join(filter(None, (text, notes)))
        return Verdict(kind, "Unknown", Reason.VERSION_UNSTATED, text)
    if notes:
        return Verdict(kind, "Unknown", Reason.FACTS_UNSTATED, notes)
    text = f"checked against the rules of {engine} {version}"
    return Verdict(kind, "True", Reason.CHECKED, text)


def ports_allocated(
    step: Step,
    engines: Sequence[Engine],
    desired: Mapping[Role, int],
    failures: Mapping[Role, CrashRecord],
    remedy: str,
) -> Verdict:
    """Say whether every engine has a block of ports that is its own; `remedy` makes more room."""
    kind = ConditionType.PORTS_ALLOCATED
    held = sum(1 for engine in engines if not engine.is_leaving) + len(step.creations)
    wanted = sum(desired.values())
    if step.exhausted:
        text = f"{held} of {wanted} engines have ports: {step.exhausted}; {remedy}"
        return Verdict(kind, "False", Reason.PORTS_EXHAUSTED, text)
    for role, record in failures.items():
        last = record.last
        taken = last is not None and last.reason in _PORT_FAILURES
        if last is not None and taken and not _past(engines, role, desired[role]):
            text = (
                f"the ports that {last.pod} was given are taken by others; a {role.value} engine "
                f"with other ports follows; should they all be, free some, or {remedy}: "
                f"{last.message}"
            )
            return Verdict(kind, "False", last.reason, text)
    if not held:
        return Verdict(kind, "Unknown", Reason.NO_ENGINES, "no engine has asked for ports yet")
    if held < wanted:
        text = f"{held} of {wanted} engines have their block; the others wait for something else"
        return Verdict(kind, "True", Reason.ALLOCATED, text)
    return Verdict(kind, "True", Reason.ALLOCATED, "every engine has its block")


def _past(engines: Sequence[Engine], role: Role, desired: int) -> bool:
    """Return whether engines of a role have got as far as only those do whose ports are theirs."""
    placed = sum(1 for engine in engines if engine.role is role and engine.state in _PLACED)
    return placed >= desired


def role_ready(
    role: Role, engines: Sequence[Engine], desired: int, failures: CrashRecord
) -> Verdict:
    """Judge the engines of a role, in one revision."""
    kind = _READY_TYPES[role]
    mine = [e for e in engines if e.role is role]
    ready = sum(1 for e in mine if e.state is EngineState.READY)
    if ready >= desired:
        return Verdict(kind, "True", Reason.ALL_READY, f"{ready} of {desired} engines serve")
    count = f"{ready} of {desired} engines serve"
    if failures.last is not None:
        last = failures.last
        wait = delay_s(failures.count)
        text = f"{last.pod} ended ({last.reason}): {last.message}"
        again = f"; {failures.count} in a row, the next starts {wait} s after the last" * (wait > 0)
        stuck = "".join(f"; {_stuck(e)}" for e in _failing(mine)[:1])
        return Verdict(kind, "False", Reason.ENGINE_ENDED, f"{count}; {text}{again}{stuck}")
    for engine in _failing(mine):
        reason = engine.failure.reason if engine.failure else ""
        return Verdict(kind, "False", reason, f"{count}; {_stuck(engine)}")
    waiting = [e for e in mine if e.state is not EngineState.READY]
    unready = any(e.state is EngineState.UNREADY for e in waiting)
    reason = Reason.UNREADY if unready else Reason.STARTING
    text = ", ".join(map(_standing, waiting)) or "none is created yet"
    return Verdict(kind, "False", reason, f"{count}; {text}")


def _standing(engine: Engine) -> str:
    where = f" on {engine.node}" if engine.node else ""
    hint = " (kubectl describe pod tells more)" if engine.state is EngineState.PENDING else ""
    return f"{engine.pod} is {engine.state.value}{where}{hint}"


def _failing(engines: Sequence[Engine]) -> list[Engine]:
    """Find engines that are here to stay and will not become ready by waiting."""
    return [e for e in engines if e.failure is not None and not e.is_leaving]


def _stuck(engine: Engine) -> str:
    return f"{engine.pod}: {engine.failure.message if engine.failure else ''}"


def router_ready(
    deployment: dict[str, Any] | None, desired: int, *, engines_serve: bool
) -> Verdict:
    """Judge the routers; one is ready when it knows a prefill and a decode engine that serve."""
    kind = ConditionType.ROUTER_READY
    if deployment is None:
        return Verdict(kind, "False", Reason.STARTING, "the router Deployment is not created yet")
    status = deployment.get("status") or {}
    ready = int(status.get("readyReplicas") or 0)
    count = f"{ready} of {desired} routers know a prefill and a decode engine that serve"
    if ready >= 1:
        return Verdict(kind, "True", Reason.AVAILABLE, count)
    for condition in status.get("conditions") or []:
        # The Deployment's controller may not make pods: a quota, a pod-security level.
        if condition["type"] == "ReplicaFailure" and condition["status"] == "True":
            return Verdict(kind, "False", condition["reason"], f"{count}; {condition['message']}")
    if engines_serve:
        name = deployment["metadata"]["name"]
        text = f"{count}, although both roles have one: see the pods of Deployment {name}"
        return Verdict(kind, "False", Reason.ROUTERS_NOT_READY, text)
    return Verdict(kind, "False", Reason.WAITING_FOR_ENGINES, count)


def progressing(
    decision: Decision, step: Step, engines: Sequence[Engine], now: datetime, *, settled: bool
) -> Verdict:
    """Say whether something is under way, and what."""
    kind, course = ConditionType.PROGRESSING, step.course
    if isinstance(decision, Freeze):
        text = "nothing is changed until the spec is accepted; see the condition Accepted"
        return Verdict(kind, "False", Reason.NOT_ACCEPTED, text)
    revision = decision.target.revision
    if course.waits:
        old = [engine for engine in engines if engine.revision != revision]
        late = sorted(engine.pod for engine in old if engine.exceeds_grace(now))
        if late:
            return Verdict(
                kind,
                "True",
                Reason.DRAIN_STUCK,
                f"{', '.join(late)} should have ended by now, so the node is out of reach: once it "
                "is known to be dead, delete the Node, or the pod with --force",
            )
        left = ", ".join(sorted(engine.pod for engine in old))
        return Verdict(
            kind,
            "True",
            Reason.DRAINING_OLD_REVISION,
            f"the spec changed to revision {revision}, which needs new engines; those of "
            f"revision {course.client} finish their requests first: {left}",
        )
    if isinstance(decision, Keep):
        text = (
            "nothing new is started until the spec is accepted, and what runs is kept; see the "
            "condition Accepted"
        )
        return Verdict(kind, "False", Reason.NOT_ACCEPTED, text)
    if settled:
        return Verdict(kind, "False", Reason.SETTLED, f"revision {revision} is complete")
    text = f"revision {revision} is being completed"
    if decision.problems:
        text += ", apart from what is refused of it; see the condition Accepted"
    return Verdict(kind, "True", Reason.STARTING_ENGINES, text)


def ready(roles: Sequence[Verdict], router: Verdict, engines: Sequence[Engine]) -> Verdict:
    """Judge whether a client's request would be served now: one engine of each role suffices."""
    serving = {e.role for e in engines if e.state is EngineState.READY}
    lacking = [role.value for role in ROLES if role not in serving]
    if not lacking and router.true:
        missing = [verdict.message for verdict in roles if not verdict.true]
        text = "; ".join(["requests are served", *missing])
        return Verdict(ConditionType.READY, "True", Reason.SERVING, text)
    if lacking:
        text = f"no {' and no '.join(lacking)} engine serves"
        return Verdict(ConditionType.READY, "False", Reason.NO_ENGINE, text)
    return Verdict(ConditionType.READY, "False", router.reason, router.message)


def stamped(
    verdicts: Sequence[Verdict], old: Sequence[Condition], generation: int, now: datetime
) -> list[Condition]:
    """Give the conditions, each with the time of its last change of status."""
    before = {condition.type: condition for condition in old}
    return [_stamp(verdict, before.get(verdict.type), generation, now) for verdict in verdicts]


def _stamp(verdict: Verdict, before: Condition | None, generation: int, now: datetime) -> Condition:
    same = before is not None and before.status == verdict.status
    message = verdict.message
    return Condition(
        type=verdict.type,
        status=verdict.status,
        observed_generation=generation,
        last_transition_time=before.last_transition_time if same and before else timestamp(now),
        reason=verdict.reason,
        message=message if len(message) <= _LONGEST else message[: _LONGEST - 3] + "...",
    )


def timestamp(time: datetime) -> str:
    """Give a time as Kubernetes writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")

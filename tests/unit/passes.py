"""What tests of passes share: operators that begin or serve, refusals, and what is seen of them."""

from __future__ import annotations

from collections.abc import Callable

from moriio_operator.admission.policy import Policy
from moriio_operator.facts.terms import Role
from moriio_operator.kube.errors import ApiError, ForbiddenError, InvalidError
from moriio_operator.kube.objects import Object

from unit.memory_kube import MemoryKube
from unit.played import Operator
from unit.samples import (
    POLICY,
    Json,
    ended,
    resource,
)


def fresh(change: Json | None = None, policy: Policy = POLICY) -> Operator:
    return Operator(MemoryKube(resource(change)), policy)


async def serving(change: Json | None = None) -> Operator:
    operator = fresh(change)
    await operator.settle()
    operator.kube.writes.clear()
    return operator


def refuse(
    verb: str, kind: str, error: ApiError, when: Callable[[Object], bool] = lambda _: True
) -> Callable[[str, Object], ApiError | None]:
    return lambda v, obj: error if (v, obj["kind"]) == (verb, kind) and when(obj) else None


INVALID = InvalidError(422, "Invalid", "spec.x: Invalid value")


FORBIDDEN = ForbiddenError(403, "Forbidden", "no engines on Sundays")


INSECURE = ForbiddenError(
    403, "Forbidden", 'pods "x" is forbidden: violates PodSecurity "baseline"'
)


QUOTA = ForbiddenError(403, "Forbidden", 'pods "x" is forbidden: exceeded quota: gpus')


WEBHOOK = ApiError(500, "InternalError", 'failed calling webhook "x": connection refused')


def with_quota(operator: Operator, pods: int) -> None:
    """Refuse pods beyond a quota; one that is deleted counts until it is gone."""
    operator.kube.refuse = lambda verb, obj: (
        QUOTA
        if obj["kind"] == "Pod"
        and verb in ("create", "dry-run")
        and len(operator.kube.of_kind("Pod")) >= pods
        else None
    )


def dies(operator: Operator, name: str) -> None:
    operator.kube.put({**operator.kube.one("Pod", name), "status": ended()})


def told(operator: Operator) -> tuple[str, str]:
    accepted = operator.condition("Accepted")
    return accepted.status, accepted.reason


def living(operator: Operator) -> list[str]:
    """The pods that nobody told to stop."""
    pods = operator.kube.of_kind("Pod")
    return [p["metadata"]["name"] for p in pods if not p["metadata"].get("deletionTimestamp")]


def of_role(role: Role) -> Callable[[Object], bool]:
    return lambda obj: bool(obj["metadata"]["labels"]["moriio.dev/role"] == role)

"""Let the API server judge engine pods by dry-run, before anything is written or stopped for them.

A template that it refuses must not cost a port block, leave half a deployment, or stop a revision
that serves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from moriio_operator.api import names
from moriio_operator.api.problem import Problem
from moriio_operator.kube.client import Kube
from moriio_operator.kube.errors import AlreadyExistsError, ApiError, ForbiddenError, InvalidError
from moriio_operator.kube.objects import Object

OVER_QUOTA = "OverQuota"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the API server has against the engines to come.

    A full quota is told apart: engines that stop give it back, so it may be a matter of waiting.
    """

    problems: tuple[Problem, ...] = ()
    over_quota: tuple[Problem, ...] = ()
    refused: frozenset[str] = frozenset()


async def rehearse(kube: Kube, pods: Sequence[Object]) -> Verdict:
    """Try one pod a role."""
    problems: list[Problem] = []
    over_quota: list[Problem] = []
    refused: set[str] = set()
    one_each = {pod["metadata"]["labels"][names.LABEL_ROLE]: pod for pod in pods}
    for role, pod in one_each.items():
        problem = await _try(kube, role, pod)
        if problem is None:
            continue
        refused.add(role)
        found = over_quota if problem.reason == OVER_QUOTA else problems
        # A namespace is told once, though its level forbids the engines of both roles.
        if (problem.reason, problem.path) not in {(p.reason, p.path) for p in found}:
            found.append(problem)
    return Verdict(tuple(problems), tuple(over_quota), frozenset(refused))


async def _try(kube: Kube, role: str, pod: Object) -> Problem | None:
    try:
        await kube.create(pod, names.FIELD_MANAGER, dry_run=True)
    except AlreadyExistsError:
        return None
    except InvalidError as error:
        return _refusal("TemplateRefused", role, error.message)
    except ForbiddenError as error:
        if "violates PodSecurity" in error.message:
            return _insecure(pod["metadata"]["namespace"], error.message)
        reason = OVER_QUOTA if "exceeded quota" in error.message else "PodForbidden"
        return _refusal(reason, role, error.message)
    except ApiError as error:
        if error.status != 500:
            raise
        # An admission webhook that does not answer.
        return _refusal("AdmissionFailed", role, error.message)
    return None


def _insecure(namespace: str, message: str) -> Problem:
    """Tell what the namespace's pod-security level has against engines: they are privileged."""
    return Problem(
        "PodSecurityForbids",
        "spec.devices.profile",
        f"the pod-security level of namespace {namespace!r} forbids privileged engines ({message}):"
        " the admin labels it pod-security.kubernetes.io/enforce=privileged",
    )


def _refusal(reason: str, role: str, message: str) -> Problem:
    return Problem(reason, f"spec.{role}", f"the API server refuses the engine pod: {message}")

"""Let the API server judge engine pods by dry-run, before anything is written or stopped for them.

A template that it refuses must not cost a port block, leave half a deployment, or stop a revision
that serves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from moriio_operator.api import names
from moriio_operator.kube.client import Kube, Object
from moriio_operator.kube.errors import (
    AlreadyExistsError,
    ApiError,
    ForbiddenError,
    InvalidError,
)
from moriio_operator.plan.problem import Problem


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
    one_each = {pod["metadata"]["labels"][names.LABEL_ROLE]: pod for pod in pods}
    for role, pod in one_each.items():
        try:
            await kube.create(pod, names.FIELD_MANAGER, dry_run=True)
        except AlreadyExistsError:
            continue
        except InvalidError as error:
            problems.append(_refusal("TemplateRefused", role, error.message))
        except ForbiddenError as error:
            found = over_quota if "exceeded quota" in error.message else problems
            found.append(_refusal("PodForbidden", role, error.message))
        except ApiError as error:
            if error.status != 500:
                raise
            # An admission webhook that does not answer.
            problems.append(_refusal("AdmissionFailed", role, error.message))
    refused = (
        role for role in one_each if _path(role) in {p.path for p in (*problems, *over_quota)}
    )
    return Verdict(tuple(problems), tuple(over_quota), frozenset(refused))


def _path(role: str) -> str:
    return f"spec.{role}"


def _refusal(reason: str, role: str, message: str) -> Problem:
    return Problem(reason, _path(role), f"the API server refuses the engine pod: {message}")

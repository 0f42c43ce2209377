"""Let the API server judge by dry-run what a pass is about to create, before it costs anything.

What it refuses must not cost a port block, leave half a deployment, or stop a revision that serves.
So one engine per role is tried before ports are given out, and everything that the next revision
will create is tried before the first engine of the one before it is stopped. The answer is read
back: an engine that would not be recognised afterwards, since a webhook changes its labels, ports
or name, is refused, too; it would be created again and again.
"""

from __future__ import annotations

from collections.abc import Sequence

from moriio_operator.api import names
from moriio_operator.api.deployment import Owner
from moriio_operator.api.problem import Problem
from moriio_operator.api.reasons import Reason
from moriio_operator.control.apply import due, name_taken, over, refusal
from moriio_operator.control.observe import World
from moriio_operator.facts.terms import Role
from moriio_operator.kube.client import Kube
from moriio_operator.kube.errors import (
    AdmissionVerdict,
    AlreadyExistsError,
    ApiError,
    admission_verdict,
)
from moriio_operator.kube.kinds import kind_of
from moriio_operator.kube.objects import Object, controlled_by
from moriio_operator.observe.engine import from_pod
from moriio_operator.plan.decision import Refusal

_REASONS = {
    AdmissionVerdict.INVALID: Reason.TEMPLATE_REFUSED,
    AdmissionVerdict.OVER_QUOTA: Reason.OVER_QUOTA,
    AdmissionVerdict.POD_SECURITY: Reason.POD_SECURITY_FORBIDS,
    AdmissionVerdict.DENIED: Reason.POD_FORBIDDEN,
    AdmissionVerdict.WEBHOOK_FAILED: Reason.ADMISSION_FAILED,
}


async def try_engines(
    kube: Kube, owner_uid: str, revision: str, pods: Sequence[Object], *, quota_is_freed: bool
) -> list[Refusal]:
    """Try engines of a revision, one per role.

    A full quota is only a matter of waiting while engines go that give theirs back.
    """
    refusals = []
    for pod in pods:
        role = Role(pod["metadata"]["labels"][names.LABEL_ROLE])
        try:
            answer = await kube.create(pod, names.FIELD_MANAGER, dry_run=True)
        except AlreadyExistsError:
            continue
        except ApiError as error:
            verdict = admission_verdict(error)
            if verdict is None:
                raise
            waits = quota_is_freed and verdict is AdmissionVerdict.OVER_QUOTA
            problem = None if waits else _problem(verdict, role, pod, error.message)
        else:
            problem = _unrecognised(role, pod, answer, owner_uid)
            if problem is None:
                continue
        refusals.append(Refusal(revision, role, problem))
    return refusals


async def try_children(
    kube: Kube, owner: Owner, revision: str, world: World, desired: Sequence[Object]
) -> list[Refusal]:
    """Try all children of a revision that differ from what is there; stop at what is refused."""
    for child, live in due(world, desired):
        problem = await _try_child(kube, owner, child, live)
        if problem is not None:
            return [Refusal(revision, None, problem)]
    return []


async def _try_child(
    kube: Kube, owner: Owner, child: Object, live: Object | None
) -> Problem | None:
    try:
        if live is None:
            await kube.create(child, names.FIELD_MANAGER, dry_run=True)
        elif live.get("roleRef") == child.get("roleRef"):
            await kube.apply(over(child, live), names.FIELD_MANAGER, dry_run=True)
    except AlreadyExistsError:
        holder = await kube.get(kind_of(child), owner.namespace, child["metadata"]["name"])
        return None if holder is None else name_taken(owner, child, holder)
    except ApiError as error:
        return refusal(child, error)
    return None


def _problem(verdict: AdmissionVerdict, role: Role, pod: Object, message: str) -> Problem:
    reason = _REASONS[verdict]
    if verdict is AdmissionVerdict.POD_SECURITY:
        # What the namespace forbids it forbids to both roles alike: engines are privileged.
        namespace = pod["metadata"]["namespace"]
        text = (
            f"the pod-security level of namespace {namespace!r} forbids privileged engines "
            f"({message}): the admin labels it pod-security.kubernetes.io/enforce=privileged"
        )
        return Problem(reason, "spec.devices.profile", text)
    return Problem(reason, f"spec.{role}", f"the API server refuses the engine pod: {message}")


def _unrecognised(role: Role, pod: Object, answer: Object, owner_uid: str) -> Problem | None:
    """Say that an admission webhook changed of an engine what the operator knows it by."""
    sent, stored = from_pod(_identified(pod)), from_pod(_identified(answer))
    # Passes find pods by these labels and by their controller.
    labels = {
        key: value
        for key, value in pod["metadata"]["labels"].items()
        if key.startswith(f"{names.GROUP}/") or key == names.LABEL_MANAGED_BY
    }
    found = labels.items() <= (answer["metadata"].get("labels") or {}).items()
    if (
        sent is not None
        and stored is not None
        and found
        and controlled_by(answer, owner_uid)
        and (sent.pod, sent.role, sent.revision, sent.ports, sent.state)
        == (stored.pod, stored.role, stored.revision, stored.ports, stored.state)
    ):
        return None
    text = (
        "an admission webhook of the cluster changes the name, the owner, a label or the ports "
        "of engine pods, so that the operator would not recognise them: exempt these pods from it"
    )
    return Problem(Reason.ENGINE_REWRITTEN, f"spec.{role}", text)


def _identified(pod: Object) -> Object:
    """Give a pod with a uid; the answer to a dry run has one, what was sent has none."""
    return {**pod, "metadata": {"uid": "", **pod["metadata"]}}

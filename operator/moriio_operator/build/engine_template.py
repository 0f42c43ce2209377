"""The template of a role's engine pods.

An engine is a plain Pod that is never restarted in place: a restarted container would come back at
an address that its peers hold stale sessions to. It is created once and never changed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from moriio_operator.api import names
from moriio_operator.api.deployment import Owner, Spec
from moriio_operator.api.engine import EngineRole
from moriio_operator.api.network import NetworkMode
from moriio_operator.build import credentials, devices, host, volumes
from moriio_operator.build.engine_pod import FIRST_PORT
from moriio_operator.build.merge import merged
from moriio_operator.build.metadata import engine_labels
from moriio_operator.build.pod import ContainerPatch, Contribution, assemble
from moriio_operator.facts.terms import Backend, Role
from moriio_operator.stack import table as stacks
from moriio_operator.stack.stack import Health, Stack

_STARTUP_PERIOD_S = 2


def engine_template(owner: Owner, role: Role, revision: str, image: str) -> dict[str, Any]:
    """Build the template of a role's engine pods; see `incarnation` for what makes it a pod.

    `image` is the operator's own, for what runs beside the engine.
    """
    template = owner.spec.role(role).pod_template or {}
    user = template.get("metadata") or {}
    made = assemble(names.CONTAINER_ENGINE, _contributions(owner, role, revision, image))
    metadata = {"labels": {**(user.get("labels") or {}), **made["metadata"]["labels"]}}
    if user.get("annotations"):
        metadata["annotations"] = user["annotations"]
    return {"metadata": metadata, "spec": merged(made["spec"], template.get("spec") or {})}


def _contributions(owner: Owner, role: Role, revision: str, image: str) -> Iterator[Contribution]:
    spec, engine = owner.spec, owner.spec.role(role)
    stack = stacks.of(spec)
    offsets = stack.ports(engine)
    yield _pod(spec, role, revision, stack)
    yield _engine(spec, role, stack, offsets)
    yield credentials.variables(stack.secrets(spec))
    yield devices.privileged()
    yield volumes.shared_memory()
    yield volumes.model_cache(spec.model.cache)
    yield _lifecycle(engine, stack)
    yield devices.resources(engine)
    if spec.network.mode is NetworkMode.HOST:
        yield host.network(offsets, image)
    if spec.connector.backend is Backend.XGMI:
        yield host.one_node(owner.name, revision)
    yield credentials.pull_secrets(spec.engine)


def _pod(spec: Spec, role: Role, revision: str, stack: Stack) -> Contribution:
    return Contribution(
        "pod",
        labels=engine_labels(revision, role),
        fields={
            "restartPolicy": "Never",
            # A Service named `vllm` would inject VLLM_PORT=tcp://..., which vLLM crashes on.
            "enableServiceLinks": False,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": stack.grace_seconds(spec, role),
        },
    )


def _engine(spec: Spec, role: Role, stack: Stack, offsets: Mapping[str, int]) -> Contribution:
    return Contribution(
        "engine",
        main=ContainerPatch(
            fields={"image": spec.engine.image},
            args=stack.arguments(spec, role),
            env=_environment(spec, role, stack),
            ports=_ports(spec.network.mode, offsets),
        ),
    )


def _lifecycle(engine: EngineRole, stack: Stack) -> Contribution:
    """Say how the engine is judged, how it stops, and where its last words are."""
    # Wait until no router sends more; the kubelet itself sleeps, so the image needs no shell.
    sleep = {"sleep": {"seconds": stack.pre_stop_seconds()}}
    fields = {
        # The last words of a log are the diagnosis that the status shows.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "lifecycle": {"preStop": sleep},
        **_probes(engine, stack.health),
    }
    return Contribution("lifecycle", main=ContainerPatch(fields=fields))


def _ports(mode: NetworkMode, offsets: Mapping[str, int]) -> list[dict[str, Any]]:
    """Declare every port on this container: the scheduler counts no other's as the node's."""
    made = []
    for name, offset in offsets.items():
        number = FIRST_PORT + offset
        # The API server sets it on the host network in any case; here it is what was asked for.
        shared = {"hostPort": number} if mode is NetworkMode.HOST else {}
        made.append({"name": name, "containerPort": number, **shared, "protocol": "TCP"})
    return made


def _environment(spec: Spec, role: Role, stack: Stack) -> list[dict[str, Any]]:
    address = {"valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}}
    plain = stack.environment(spec, role)
    # A user's value takes the place of ours, where that is not refused.
    secrets = stack.secrets(spec)
    plain.update((v.name, v.value) for v in spec.role(role).env if v.name not in secrets)
    return [
        # They come first: only variables above an expansion can be used in it.
        *({"name": name, **address} for name in stack.address_variables),
        *({"name": name, "value": value} for name, value in plain.items()),
    ]


def _probes(engine: EngineRole, where: Health) -> dict[str, Any]:
    health = {"httpGet": {"path": where.path, "port": where.port}}
    return {
        "startupProbe": {
            **health,
            "periodSeconds": _STARTUP_PERIOD_S,
            "timeoutSeconds": 5,
            "failureThreshold": math.ceil(engine.startup_timeout_seconds / _STARTUP_PERIOD_S),
        },
        "readinessProbe": {
            **health, "periodSeconds": 2, "timeoutSeconds": 5, "failureThreshold": 3,
        },
        # A wedged engine is found by nothing else; slow to judge, since the verdict is the end.
        "livenessProbe": {
            **health, "periodSeconds": 10, "timeoutSeconds": 10, "failureThreshold": 6,
        },
    }  # fmt: skip

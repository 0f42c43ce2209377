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
from moriio_operator.api.model import SecretKeyRef
from moriio_operator.api.network import NetworkMode
from moriio_operator.build import credentials, devices, host, volumes
from moriio_operator.build.engine_pod import FIRST_PORT
from moriio_operator.build.merge import merged
from moriio_operator.build.metadata import engine_labels
from moriio_operator.build.pod import ContainerPatch, Contribution, assemble
from moriio_operator.facts.terms import Backend, Role
from moriio_operator.stack.vllm_moriio import command_line
from moriio_operator.stack.vllm_moriio.connector import POD_IP
from moriio_operator.stack.vllm_moriio.ports import HTTP, layout

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
    offsets = layout(engine.parallelism.ranks)
    yield _engine(owner, role, revision, offsets)
    yield credentials.variables(_secrets(spec))
    yield devices.privileged()
    yield volumes.shared_memory()
    yield volumes.model_cache(spec.model.cache)
    yield _lifecycle(spec, role)
    yield devices.resources(engine)
    if spec.network.mode is NetworkMode.HOST:
        yield host.network(offsets, image)
    if spec.connector.backend is Backend.XGMI:
        yield host.one_node(owner.name, revision)
    yield credentials.pull_secrets(spec.engine)


def _engine(owner: Owner, role: Role, revision: str, offsets: Mapping[str, int]) -> Contribution:
    """The pod itself, and the engine container with its arguments, environment and ports."""
    spec = owner.spec
    return Contribution(
        "engine",
        labels=engine_labels(revision, role),
        fields={
            "restartPolicy": "Never",
            # A Service named `vllm` would inject VLLM_PORT=tcp://..., which vLLM dies of.
            "enableServiceLinks": False,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": command_line.grace_seconds(spec, role),
        },
        main=ContainerPatch(
            fields={"image": spec.engine.image},
            args=command_line.arguments(spec, role, spec.engine.ruling_version),
            env=_environment(spec, role),
            ports=_ports(spec.network.mode, offsets),
        ),
    )


def _lifecycle(spec: Spec, role: Role) -> Contribution:
    """Say how the engine is judged, how it stops, and where its last words are."""
    # Wait until no router sends more; the kubelet itself sleeps, so the image needs no shell.
    sleep = {"sleep": {"seconds": command_line.leave_seconds()}}
    fields = {
        # The last words of a log are the diagnosis that the status shows.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "lifecycle": {"preStop": sleep},
        **_probes(spec.role(role)),
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


def _environment(spec: Spec, role: Role) -> list[dict[str, Any]]:
    address = {"valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}}
    plain = command_line.environment(spec, role, spec.engine.ruling_version)
    # A user's value takes the place of ours, where that is not refused.
    secrets = _secrets(spec)
    plain.update((v.name, v.value) for v in spec.role(role).env if v.name not in secrets)
    return [
        # POD_IP comes first: only variables above an expansion can be used in it.
        *({"name": name, **address} for name in (POD_IP, "VLLM_HOST_IP")),
        *({"name": name, "value": value} for name, value in plain.items()),
    ]


def _secrets(spec: Spec) -> dict[str, SecretKeyRef]:
    references = {
        names.HUB_TOKEN: spec.model.token_secret_key_ref,
        names.ENGINE_API_KEY: spec.engine.api_key_secret_key_ref,
    }
    return {name: reference for name, reference in references.items() if reference is not None}


def _probes(wish: EngineRole) -> dict[str, Any]:
    health = {"httpGet": {"path": command_line.HEALTH_PATH, "port": HTTP}}
    return {
        "startupProbe": {
            **health,
            "periodSeconds": _STARTUP_PERIOD_S,
            "timeoutSeconds": 5,
            "failureThreshold": math.ceil(wish.startup_timeout_seconds / _STARTUP_PERIOD_S),
        },
        "readinessProbe": {
            **health, "periodSeconds": 2, "timeoutSeconds": 5, "failureThreshold": 3,
        },
        # A wedged engine is found by nothing else; slow to judge, since the verdict is the end.
        "livenessProbe": {
            **health, "periodSeconds": 10, "timeoutSeconds": 10, "failureThreshold": 6,
        },
    }  # fmt: skip

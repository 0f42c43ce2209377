"""The template of a role's engine pods.

An engine is a plain Pod that is never restarted in place: a restarted container would come back at
an address that its peers hold stale sessions to. It is created once and never changed.
"""

from __future__ import annotations

import math
from typing import Any

from moriio_operator.api import names
from moriio_operator.api.deployment import Owner
from moriio_operator.api.engine import EngineRole
from moriio_operator.api.model import Cache
from moriio_operator.api.network import NetworkMode
from moriio_operator.build import host
from moriio_operator.build.engine_pod import FIRST_PORT
from moriio_operator.build.merge import merged
from moriio_operator.build.metadata import engine_labels
from moriio_operator.build.secret import secret_variable
from moriio_operator.facts.terms import Backend, Role
from moriio_operator.stack.vllm_moriio import command_line
from moriio_operator.stack.vllm_moriio.connector import POD_IP
from moriio_operator.stack.vllm_moriio.ports import HTTP, layout

_STARTUP_PERIOD_S = 2

# Devices as the host has them: kind, path, type that the kubelet checks before it starts the pod.
_DEVICES = (
    ("infiniband", "/dev/infiniband", "Directory"),
    ("kfd", "/dev/kfd", "CharDevice"),
    ("dri", "/dev/dri", "Directory"),
)


def engine_template(owner: Owner, role: Role, revision: str, image: str) -> dict[str, Any]:
    """Build the template of a role's engine pods; see `incarnation` for what makes it a pod.

    `image` is the operator's own, for what runs beside the engine.
    """
    template = owner.spec.role(role).pod_template or {}
    user = template.get("metadata") or {}
    made: dict[str, Any] = {
        "metadata": {"labels": {**(user.get("labels") or {}), **engine_labels(revision, role)}},
        "spec": merged(_spec(owner, role, revision, image), template.get("spec") or {}),
    }
    if user.get("annotations"):
        made["metadata"]["annotations"] = user["annotations"]
    return made


def _spec(owner: Owner, role: Role, revision: str, image: str) -> dict[str, Any]:
    spec = owner.spec
    made: dict[str, Any] = {
        "restartPolicy": "Never",
        # A Service named `vllm` would inject VLLM_PORT=tcp://..., which vLLM dies of.
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": command_line.grace_seconds(spec, role),
        "containers": [_container(owner, role)],
        "volumes": [
            *({"name": n, "hostPath": {"path": p, "type": t}} for n, p, t in _DEVICES),
            {"name": "shm", "emptyDir": {"medium": "Memory"}},
            {"name": "cache", **_cache_volume(spec.model.cache)},
        ],
    }
    if spec.network.mode is NetworkMode.HOST:
        made |= host.network(layout(spec.role(role).parallelism.ranks), image)
    if spec.connector.backend is Backend.XGMI:
        made |= host.one_node(owner.name, revision)
    if spec.engine.image_pull_secrets:
        made["imagePullSecrets"] = [{"name": s.name} for s in spec.engine.image_pull_secrets]
    return made


def _container(owner: Owner, role: Role) -> dict[str, Any]:
    spec = owner.spec
    wish = spec.role(role)
    made: dict[str, Any] = {
        "name": names.CONTAINER_ENGINE,
        "image": spec.engine.image,
        "args": command_line.arguments(spec, role, spec.engine.ruling_version),
        "env": _environment(owner, role),
        "ports": _ports(spec.network.mode, layout(wish.parallelism.ranks)),
        "securityContext": {"privileged": True, "capabilities": {"add": ["IPC_LOCK"]}},
        "volumeMounts": [
            *({"name": name, "mountPath": path} for name, path, _ in _DEVICES),
            {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - the pod's own memory
            {"name": "cache", "mountPath": names.CACHE_MOUNT},
        ],
        # The last words of a log are the diagnosis that the status shows.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        # Wait until no router sends more; the kubelet itself sleeps, so the image needs no shell.
        "lifecycle": {"preStop": {"sleep": {"seconds": command_line.leave_seconds()}}},
        **_probes(wish),
    }
    resources = _resources(wish)
    if resources:
        made["resources"] = resources
    return made


def _ports(mode: NetworkMode, offsets: dict[str, int]) -> list[dict[str, Any]]:
    """Declare every port on this container: the scheduler counts no other's as the node's."""
    made = []
    for name, offset in offsets.items():
        number = FIRST_PORT + offset
        # The API server sets it on the host network in any case; here it is what was asked for.
        shared = {"hostPort": number} if mode is NetworkMode.HOST else {}
        made.append({"name": name, "containerPort": number, **shared, "protocol": "TCP"})
    return made


def _environment(owner: Owner, role: Role) -> list[dict[str, Any]]:
    address = {"valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}}
    # POD_IP comes first: only variables above an expansion can be used in it.
    made: dict[str, dict[str, Any]] = {
        POD_IP: {"name": POD_IP, **address},
        "VLLM_HOST_IP": {"name": "VLLM_HOST_IP", **address},
    }
    plain = command_line.environment(owner.spec, role, owner.spec.engine.ruling_version)
    plain.update((v.name, v.value) for v in owner.spec.role(role).env)
    made.update((name, {"name": name, "value": value}) for name, value in plain.items())
    token, key = owner.spec.model.token_secret_key_ref, owner.spec.engine.api_key_secret_key_ref
    if token is not None:
        made[names.HUB_TOKEN] = secret_variable(names.HUB_TOKEN, token)
    if key is not None:
        made[names.ENGINE_API_KEY] = secret_variable(names.ENGINE_API_KEY, key)
    return list(made.values())


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


def _resources(wish: EngineRole) -> dict[str, dict[str, str]]:
    given = wish.resources
    requests = dict(given.requests or {}) if given else {}
    limits = dict(given.limits or {}) if given else {}
    gpu, rdma = wish.devices.gpu, wish.devices.rdma
    # An extended resource is asked for by its limit; the request follows it.
    if gpu is not None and gpu.resource_name is not None:
        limits[gpu.resource_name] = str(gpu.count)
    if rdma is not None:
        limits[rdma.resource_name] = str(rdma.count)
    return {k: v for k, v in (("requests", requests), ("limits", limits)) if v}


def _cache_volume(cache: Cache | None) -> dict[str, Any]:
    if cache is not None and cache.persistent_volume_claim is not None:
        return {"persistentVolumeClaim": {"claimName": cache.persistent_volume_claim.claim_name}}
    if cache is not None and cache.host_path is not None:
        return {"hostPath": {"path": cache.host_path.path, "type": "Directory"}}
    size = cache.empty_dir.size_limit if cache is not None and cache.empty_dir is not None else None
    return {"emptyDir": {} if size is None else {"sizeLimit": size}}

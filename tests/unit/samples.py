"""Builders of what the tests look at: PDDeployments, engine pods as the API gives them, engines.

A test names only what matters to it; everything else is the same small service `llm` in `team`.
"""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

from moriio_operator.admission.policy import Policy
from moriio_operator.api import names
from moriio_operator.api.deployment import Owner, Spec
from moriio_operator.api.ports import PortBlock, PortRange
from moriio_operator.api.status import EngineState
from moriio_operator.build.children import Installation, Templates, children
from moriio_operator.build.engine_pod import engine_pod_of
from moriio_operator.build.engine_template import engine_template
from moriio_operator.build.revision_template import render_engines, render_router
from moriio_operator.facts.terms import Role
from moriio_operator.observe.engine import Engine
from moriio_operator.observe.failure import Failure
from moriio_operator.stack.vllm_moriio.ports import layout

Json = dict[str, Any]

NOW = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)
UID = "4a7cbb6e-0000-4000-8000-000000000001"
REVISION = "bcdfghjk"
PORTS = PortRange(20_000, 20_999)
# Ports of an engine of one rank.
BLOCK_SIZE = len(layout(1))
POLICY = Policy(
    privileged_namespaces=["team"],
    host_network_namespaces=["team"],
    host_path_prefixes=["/srv/models"],
)
# The operator's own.
IMAGE = "operator:1"
INSTALLATION = Installation(IMAGE, "ClusterRole", "moriio-registrar")

# The operator's settings, as the chart writes them; all else is left to its default.
SETTINGS: Json = {
    "registrarImage": "operator:1",
    "registrarRole": {"kind": "ClusterRole", "name": "moriio-registrar"},
    "leaderElection": {"leaseNamespace": "moriio-system", "leaseName": "moriio-operator"},
}

MINIMAL: Json = {
    "model": {"name": "org/model", "servedName": "model"},
    "engine": {"image": "vllm:1"},
    "connector": {"mode": "Read"},
    "prefill": {},
    "decode": {},
    "devices": {"fabric": "InfiniBand"},
    "router": {"image": "router:1"},
    "network": {"mode": "Pod"},
}

FULL: Json = {
    "model": {
        "name": "/models/big",
        "servedName": "big",
        "cache": {"hostPath": {"path": "/srv/models/big"}},
    },
    "engine": {"image": "vllm:2", "imagePullSecrets": [{"name": "pull"}]},
    "connector": {
        "mode": "Write",
        "qpPerTransfer": 4,
        "postBatchSize": 16,
        "workers": 2,
        "transferTimeoutSeconds": 31,
        "deferTimeoutSeconds": 61,
        "receiveAbortTimeoutSeconds": 121,
    },
    "prefill": {
        "replicas": 2,
        "parallelism": {"tensor": 2},
        "args": ["--max-model-len", "4096"],
        "env": [{"name": "HF_HUB_OFFLINE", "value": "1"}],
        "resources": {"requests": {"cpu": "8"}, "limits": {"memory": "64Gi"}},
        "startupTimeoutSeconds": 601,
        "devices": {
            "gpu": {"resourceName": "amd.com/gpu", "count": 2, "visibleDevices": "0,1"},
            "rdma": {"resourceName": "rdma/hca", "count": 2},
        },
        "podTemplate": {
            "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}},
            "spec": {
                "nodeSelector": {"pool": "prefill"},
                "tolerations": [{"key": "gpu", "operator": "Exists"}],
                "volumes": [{"name": "scratch", "emptyDir": {}}],
                "containers": [
                    {
                        "name": "engine",
                        "env": [
                            {"name": "HF_HUB_OFFLINE", "value": "0"},
                            {
                                "name": "HF_TOKEN",
                                "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}},
                            },
                        ],
                        "resources": {"limits": {"cpu": "16"}},
                        "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
                    },
                    {"name": "log", "image": "log:1"},
                ],
            },
        },
    },
    "decode": {"replicas": 3, "devices": {"gpu": {"visibleDevices": "2"}}},
    "devices": {"profile": "Privileged", "fabric": "InfiniBand"},
    "router": {
        "replicas": 2,
        "image": "router:2",
        "policy": "RoundRobin",
        "requestTimeoutSeconds": 900,
        "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}},
    },
    "network": {"mode": "Pod"},
    "rollout": {"drainTimeoutSeconds": 90},
}


# On the host network, with as many ranks as a node has GPUs.
HOST: Json = {
    "model": {
        "name": "org/experts",
        "servedName": "experts",
        "config": {
            "architecture": "MoE",
            "attention": "MLA",
            "kvHeads": 1,
            "layers": ["FullAttention"],
        },
    },
    "engine": {"image": "vllm:3", "version": "0.33.0"},
    "connector": {"mode": "Write"},
    "prefill": {"parallelism": {"dataLocal": 2, "expert": "Enabled"}},
    "decode": {"replicas": 2, "parallelism": {"dataLocal": 4, "expert": "Enabled"}},
    "devices": {"fabric": "RoCE"},
    "router": {"image": "router:3"},
    "network": {"mode": "Host", "portRange": {"start": 20_100, "end": 20_199}},
}


def laid_over(base: Any, change: Any) -> Any:
    """`base` with `change` laid over it, key by key; neither is changed."""
    if isinstance(base, dict) and isinstance(change, dict):
        return {**base, **{key: laid_over(base.get(key), value) for key, value in change.items()}}
    return copy.deepcopy(change)


def spec_object(change: Json | None = None, base: Json = MINIMAL) -> Json:
    """The spec as a user writes it."""
    made: Json = laid_over(base, change or {})
    return made


def spec(change: Json | None = None, base: Json = MINIMAL) -> Spec:
    """The spec as the operator reads it."""
    return Spec.model_validate(spec_object(change, base))


def resource(
    change: Json | None = None,
    *,
    name: str = "llm",
    status: Json | None = None,
    generation: int = 1,
) -> Json:
    """A PDDeployment as the API server stores it (spec defaults filled in)."""
    filled = spec(change).model_dump(mode="json", by_alias=True, exclude_none=True)
    made: Json = {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": name, "namespace": "team", "uid": UID, "generation": generation},
        "spec": filled,
    }
    return made if status is None else {**made, "status": status}


def owner(change: Json | None = None, *, base: Json = MINIMAL, name: str = "llm") -> Owner:
    """A PDDeployment with its identity."""
    return Owner(name=name, namespace="team", uid=UID, generation=1, spec=spec(change, base))


def engine_pod(whose: Owner, name: str, role: Role, revision: str, base: int) -> Json:
    """The pod of an engine whose ports begin at `base`."""
    return engine_pod_of(whose, name, engine_template(whose, role, revision, IMAGE), base)


def children_of(whose: Owner, revision: str = REVISION) -> list[Json]:
    """All children but engines."""
    engines = render_engines(whose, revision, IMAGE)
    router = render_router(whose, revision, IMAGE)
    templates = Templates(engines, router)
    return children(whose, [templates], [templates], revision, INSTALLATION)


def template_owner(template: Any, role: Role = Role.DECODE) -> Owner:
    """A PDDeployment whose role has this pod template."""
    return owner({role.value: {"podTemplate": template}})


def pod(
    serial: int = 0,
    role: Role = Role.PREFILL,
    *,
    revision: str = REVISION,
    status: Json | None = None,
    whose: Owner | None = None,
    ranks: int = 1,
) -> Json:
    """An engine pod as the API gives it."""
    whose = whose or owner()
    name = names.engine_pod(whose.name, role, serial)
    if ranks != 1:
        whose = owner({role.value: {"parallelism": {"tensor": ranks}}}, name=whose.name)
    made = engine_pod(whose, name, role, revision, PORTS.start + serial % PORTS.length)
    made["metadata"]["uid"] = f"uid-of-{name}"
    made["status"] = status or {"phase": "Pending"}
    return made


def container(state: Json, *, name: str = "engine", started: bool | None = None) -> Json:
    """A container's status."""
    made: Json = {"name": name, "state": state, "ready": False}
    return made if started is None else {**made, "started": started}


PENDING: Json = {"phase": "Pending"}
STARTING: Json = {
    "phase": "Running",
    "podIP": "198.18.1.7",
    "containerStatuses": [container({"running": {}}, started=False)],
    "conditions": [{"type": "Ready", "status": "False"}],
}
READY: Json = {
    "phase": "Running",
    "podIP": "198.18.1.7",
    "containerStatuses": [container({"running": {}}, started=True)],
    "conditions": [{"type": "Ready", "status": "True"}],
}
UNREADY: Json = {**READY, "conditions": [{"type": "Ready", "status": "False"}]}


def ended(code: int = 1, reason: str = "Error", message: str = "") -> Json:
    """The status of a pod whose engine container ended."""
    end = {"exitCode": code, "reason": reason, "message": message}
    return {"phase": "Failed", "containerStatuses": [container({"terminated": end})]}


def engine(
    serial: int,
    role: Role = Role.PREFILL,
    state: EngineState = EngineState.READY,
    *,
    revision: str = REVISION,
    failure: Failure | None = None,
) -> Engine:
    """An engine as the planner sees it."""
    name = names.engine_pod("llm", role, serial)
    return Engine(
        pod=name,
        uid=f"uid-of-{name}",
        role=role,
        revision=revision,
        ports=PortBlock(PORTS.start + serial % PORTS.length, BLOCK_SIZE),
        state=state,
        serial=serial,
        failure=failure,
    )


def later(seconds: float) -> datetime:
    """A moment after NOW."""
    return NOW + timedelta(seconds=seconds)

"""The pod of an engine: what it must hold whatever the spec says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from moriio_operator.facts.terms import ROLES, Role
from moriio_operator.stack.vllm_moriio import command_line
from moriio_operator.stack.vllm_moriio.ports import layout

from unit.samples import FULL, MINIMAL, REVISION, UID, Json, engine_pod, laid_over, owner


def built(
    change: Json | None = None, base: Json = MINIMAL, role: Role = Role.PREFILL, ranks: int = 1
) -> Json:
    wish = laid_over(change or {}, {role.value: {"parallelism": {"tensor": ranks}}})
    whose = owner(wish if ranks != 1 else change, base=base)
    return engine_pod(whose, f"llm-{role}-100", role, REVISION, 20_100)


def container(pod: Json) -> Json:
    (found,) = (c for c in pod["spec"]["containers"] if c["name"] == "engine")
    return dict(found)


def variables(pod: Json) -> dict[str, Any]:
    return {item["name"]: item for item in container(pod)["env"]}


BOTH = pytest.mark.parametrize("base", [MINIMAL, FULL], ids=["minimal", "full"])


@BOTH
@pytest.mark.parametrize("role", ROLES)
def test_it_is_never_restarted_in_place(base: Json, role: Role) -> None:
    assert built(base=base, role=role)["spec"]["restartPolicy"] == "Never"


@BOTH
def test_services_and_tokens_stay_outside(base: Json) -> None:
    spec = built(base=base)["spec"]
    assert (spec["enableServiceLinks"], spec["automountServiceAccountToken"]) == (False, False)


@BOTH
def test_its_own_address_comes_first_and_can_be_expanded(base: Json) -> None:
    pod = built(base=base)
    address = {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}
    assert next(iter(variables(pod))) == "POD_IP"
    assert variables(pod)["POD_IP"]["valueFrom"] == address
    assert variables(pod)["VLLM_HOST_IP"]["valueFrom"] == address
    assert any("$(POD_IP)" in argument for argument in container(pod)["args"])


@pytest.mark.parametrize("ranks", [1, 2])
def test_every_port_of_its_block_is_declared_under_its_name(ranks: int) -> None:
    declared = {p["name"]: p["containerPort"] for p in container(built(ranks=ranks))["ports"]}
    assert declared == {name: 20_100 + offset for name, offset in layout(ranks).items()}


@BOTH
def test_it_belongs_to_its_deployment_and_goes_with_it(base: Json) -> None:
    (reference,) = built(base=base)["metadata"]["ownerReferences"]
    assert (reference["uid"], reference["controller"]) == (UID, True)


@BOTH
@pytest.mark.parametrize("role", ROLES)
def test_services_and_planners_find_it_by_its_labels(base: Json, role: Role) -> None:
    labels = built(base=base, role=role)["metadata"]["labels"]
    assert (
        labels.items()
        >= {
            "app.kubernetes.io/managed-by": "moriio-operator",
            "moriio.dev/deployment": "llm",
            "moriio.dev/component": "engine",
            "moriio.dev/role": role.value,
            "moriio.dev/revision": REVISION,
        }.items()
    )


def test_the_users_labels_and_annotations_are_kept() -> None:
    metadata = built(base=FULL)["metadata"]
    assert metadata["labels"]["team"] == "a"
    assert metadata["annotations"]["note"] == "b"


def test_it_sees_the_devices_of_its_node() -> None:
    pod = built()
    mounts = {m["name"]: m["mountPath"] for m in container(pod)["volumeMounts"]}
    volumes = {v["name"]: v for v in pod["spec"]["volumes"]}
    for name, path in (("infiniband", "/dev/infiniband"), ("kfd", "/dev/kfd"), ("dri", "/dev/dri")):
        assert mounts[name] == path
        assert volumes[name]["hostPath"]["path"] == path
    assert container(pod)["securityContext"] == {
        "privileged": True,
        "capabilities": {"add": ["IPC_LOCK"]},
    }


@BOTH
def test_every_mount_has_its_volume(base: Json) -> None:
    spec = built(base=base)["spec"]
    volumes = {volume["name"] for volume in spec["volumes"]}
    mounted = {m["name"] for c in spec["containers"] for m in c.get("volumeMounts", [])}
    assert mounted <= volumes


@pytest.mark.parametrize(
    ("cache", "volume"),
    [
        (None, {"emptyDir": {}}),
        ({"emptyDir": {}}, {"emptyDir": {}}),
        ({"emptyDir": {"sizeLimit": "9Gi"}}, {"emptyDir": {"sizeLimit": "9Gi"}}),
        (
            {"persistentVolumeClaim": {"claimName": "c"}},
            {"persistentVolumeClaim": {"claimName": "c"}},
        ),
        (
            {"hostPath": {"path": "/srv/m"}},
            {"hostPath": {"path": "/srv/m", "type": "Directory"}},
        ),
    ],
)
def test_the_cache_is_the_volume_that_the_spec_names(cache: Any, volume: Json) -> None:
    pod = built({"model": {"cache": cache}})
    assert {"name": "cache", **volume} in pod["spec"]["volumes"]
    assert {"name": "cache", "mountPath": "/models"} in container(pod)["volumeMounts"]


def test_shared_memory_is_memory() -> None:
    assert {"name": "shm", "emptyDir": {"medium": "Memory"}} in built()["spec"]["volumes"]


@pytest.mark.parametrize(
    ("role", "resources"),
    [
        ({}, None),
        ({"resources": {}}, None),
        (
            {"resources": {"requests": {"cpu": "1"}}},
            {"requests": {"cpu": "1"}},
        ),
        (
            {"devices": {"gpu": {"resourceName": "amd.com/gpu", "count": 4}}},
            {"limits": {"amd.com/gpu": "4"}},
        ),
        (
            {
                "devices": {"rdma": {"resourceName": "rdma/hca"}},
                "resources": {"limits": {"memory": "1Gi"}},
            },
            {"limits": {"memory": "1Gi", "rdma/hca": "1"}},
        ),
        ({"devices": {"gpu": {"visibleDevices": "0"}}}, None),
    ],
)
def test_resources_are_those_of_the_role_and_its_devices(role: Json, resources: Any) -> None:
    assert container(built({"prefill": role})).get("resources") == resources


@pytest.mark.parametrize(
    ("budget_s", "threshold"), [(1, 1), (2, 1), (3, 2), (600, 300), (86_400, 43_200)]
)
def test_the_start_up_probe_waits_as_long_as_the_spec_says(budget_s: int, threshold: int) -> None:
    probe = container(built({"prefill": {"startupTimeoutSeconds": budget_s}}))["startupProbe"]
    assert probe["failureThreshold"] == threshold
    assert threshold * probe["periodSeconds"] >= budget_s


def test_all_probes_ask_health_by_the_ports_name() -> None:
    made = container(built())
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert made[probe]["httpGet"] == {"path": "/health", "port": "http"}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("mode", ["Read", "Write"])
def test_the_grace_period_covers_wait_drain_and_shutdown(role: Role, mode: str) -> None:
    change = {"connector": {"mode": mode}, "rollout": {"drainTimeoutSeconds": 100}}
    pod = built(change, role=role)
    sleep = container(pod)["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert sleep == command_line.pre_stop_seconds()
    assert pod["spec"]["terminationGracePeriodSeconds"] >= sleep + 100


def test_the_last_words_of_its_log_are_its_termination_message() -> None:
    assert container(built())["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_a_variable_of_the_role_is_overridden_by_the_template() -> None:
    pod = built(base=FULL)
    assert variables(pod)["HF_HUB_OFFLINE"]["value"] == "0"
    assert "secretKeyRef" in variables(pod)["HF_TOKEN"]["valueFrom"]


def test_a_variable_stands_once() -> None:
    names = [item["name"] for item in container(built(base=FULL))["env"]]
    assert len(names) == len(set(names))


def test_pull_secrets_are_named() -> None:
    assert built(base=FULL)["spec"]["imagePullSecrets"] == [{"name": "pull"}]
    assert "imagePullSecrets" not in built()["spec"]


def test_sidecars_stand_beside_the_engine() -> None:
    assert [c["name"] for c in built(base=FULL)["spec"]["containers"]] == ["engine", "log"]


@BOTH
def test_a_pod_is_plain_json(base: Json) -> None:
    pod = built(base=base)
    assert json.loads(json.dumps(pod)) == pod


@pytest.mark.parametrize("role", ROLES)
def test_secrets_come_by_reference_and_in_no_argument(role: Role) -> None:
    change: Json = {
        "model": {"tokenSecretKeyRef": {"name": "hub", "key": "token"}},
        "engine": {"apiKeySecretKeyRef": {"name": "api", "key": "key"}},
    }
    pod = built(change, role=role)
    found = {name: variables(pod)[name]["valueFrom"] for name in ("HF_TOKEN", "VLLM_API_KEY")}
    assert found == {
        "HF_TOKEN": {"secretKeyRef": {"name": "hub", "key": "token"}},
        "VLLM_API_KEY": {"secretKeyRef": {"name": "api", "key": "key"}},
    }
    assert "--api-key" not in container(pod)["args"]


def test_without_references_no_secret_is_asked_for() -> None:
    assert {"HF_TOKEN", "VLLM_API_KEY"}.isdisjoint(variables(built()))


@pytest.mark.parametrize("role", ROLES)
def test_no_two_settings_of_a_user_collide(role: Role) -> None:
    # Where a field and a general list name the same, the field holds; XGMI and the host network
    # bring what no other pod has.
    change: Json = {
        "model": {"tokenSecretKeyRef": {"name": "hub", "key": "token"}},
        "engine": {"apiKeySecretKeyRef": {"name": "api", "key": "key"}},
        "connector": {"backend": "XGMI"},
        "network": {"mode": "Host"},
        role.value: {
            "env": [{"name": "HF_TOKEN", "value": "x"}, {"name": "HF_HOME", "value": "/y"}],
            "resources": {"limits": {"amd.com/gpu": "9"}},
            "devices": {
                "gpu": {"resourceName": "amd.com/gpu", "count": 2},
                "rdma": {"resourceName": "amd.com/gpu"},
            },
        },
    }
    pod = built(change, role=role)
    assert "secretKeyRef" in variables(pod)["HF_TOKEN"]["valueFrom"]
    assert variables(pod)["HF_HOME"]["value"] == "/y"
    assert container(pod)["resources"]["limits"]["amd.com/gpu"] == "1"

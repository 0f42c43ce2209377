"""A pod from contributions: all of them are in it, and none takes another's place."""

from __future__ import annotations

import copy

import pytest
from moriio_operator.build.merge import CollisionError
from moriio_operator.build.pod import ContainerPatch, Contribution, assemble

FIRST = Contribution(
    "first",
    fields={"hostPID": True},
    labels={"a": "1"},
    annotations={"a": "1"},
    init_containers=[{"name": "try", "image": "i"}],
    containers=[{"name": "log", "image": "i"}],
    volumes=[{"name": "cache", "emptyDir": {}}],
    resource_claims=[{"name": "gpus", "resourceClaimTemplateName": "four"}],
    pod_affinity=[{"topologyKey": "rack"}],
    main=ContainerPatch(
        fields={"image": "i", "securityContext": {"privileged": True}},
        args=["--first"],
        env=[{"name": "A", "value": "1"}],
        ports=[{"name": "http", "containerPort": 1}],
        mounts=[{"name": "cache", "mountPath": "/models"}],
        resources={"limits": {"cpu": "1"}},
    ),
)
SECOND = Contribution(
    "second",
    fields={"hostIPC": True},
    labels={"b": "2"},
    annotations={"b": "2"},
    init_containers=[{"name": "fetch", "image": "i"}],
    containers=[{"name": "trace", "image": "i"}],
    volumes=[{"name": "shm", "emptyDir": {}}],
    resource_claims=[{"name": "nics", "resourceClaimTemplateName": "four"}],
    pod_affinity=[{"topologyKey": "node"}],
    main=ContainerPatch(
        fields={"lifecycle": {}, "securityContext": {"runAsUser": 0}},
        args=["--second"],
        env=[{"name": "B", "value": "2"}],
        ports=[{"name": "more", "containerPort": 2}],
        mounts=[{"name": "shm", "mountPath": "/dev/shm"}],
        resources={"limits": {"memory": "1Gi"}, "requests": {"cpu": "1"}},
    ),
)


def test_a_pod_holds_what_every_contribution_gives_in_their_order() -> None:
    made = assemble("engine", [FIRST, SECOND])
    assert made["metadata"] == {"labels": {"a": "1", "b": "2"}, "annotations": {"a": "1", "b": "2"}}
    spec = made["spec"]
    assert (spec["hostPID"], spec["hostIPC"]) == (True, True)
    assert [c["name"] for c in spec["initContainers"]] == ["try", "fetch"]
    assert [c["name"] for c in spec["containers"]] == ["engine", "log", "trace"]
    assert [v["name"] for v in spec["volumes"]] == ["cache", "shm"]
    assert [c["name"] for c in spec["resourceClaims"]] == ["gpus", "nics"]
    terms = spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert [term["topologyKey"] for term in terms] == ["rack", "node"]
    assert spec["containers"][0] == {
        "name": "engine",
        "image": "i",
        "securityContext": {"privileged": True, "runAsUser": 0},
        "lifecycle": {},
        "args": ["--first", "--second"],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
        "ports": [{"name": "http", "containerPort": 1}, {"name": "more", "containerPort": 2}],
        "volumeMounts": [
            {"name": "cache", "mountPath": "/models"},
            {"name": "shm", "mountPath": "/dev/shm"},
        ],
        "resources": {
            "limits": {"cpu": "1", "memory": "1Gi"},
            "requests": {"cpu": "1"},
            "claims": [{"name": "gpus"}, {"name": "nics"}],
        },
    }


def test_joining_changes_no_contribution() -> None:
    before = copy.deepcopy((FIRST, SECOND))
    assemble("engine", [FIRST, SECOND])
    assert before == (FIRST, SECOND)


@pytest.mark.parametrize(
    ("other", "path"),
    [
        (Contribution("other", fields={"hostPID": False}), "spec.hostPID"),
        (Contribution("other", fields={"hostPID": True}), "spec.hostPID"),
        (Contribution("other", fields={"affinity": {"podAffinity": None}}), "spec.affinity"),
        (Contribution("other", labels={"a": "2"}), "metadata.labels.a"),
        (Contribution("other", annotations={"a": "2"}), "metadata.annotations.a"),
        (Contribution("other", init_containers=[{"name": "try"}]), "initContainers[try]"),
        (
            Contribution("other", containers=[{"name": "log", "image": "x"}]),
            "containers[log].image",
        ),
        (
            Contribution("other", containers=[{"name": "engine", "image": "x"}]),
            "containers[engine].image",
        ),
        (Contribution("other", volumes=[{"name": "cache", "hostPath": {}}]), "volumes[cache]"),
        (Contribution("other", resource_claims=[{"name": "gpus"}]), "claims[gpus]"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_two_that_set_the_same_are_an_error_that_names_it(other: Contribution, path: str) -> None:
    with pytest.raises(CollisionError) as caught:
        assemble("engine", [FIRST, other])
    assert path in str(caught.value)
    assert str(caught.value).startswith("other sets ")


@pytest.mark.parametrize(
    ("patch", "path"),
    [
        (ContainerPatch(fields={"image": "x"}), "image"),
        (
            ContainerPatch(fields={"securityContext": {"privileged": False}}),
            "securityContext.privileged",
        ),
        (ContainerPatch(env=[{"name": "A", "value": "2"}]), "env[A]"),
        (ContainerPatch(ports=[{"name": "http", "containerPort": 9}]), "ports[http]"),
        (ContainerPatch(mounts=[{"name": "x", "mountPath": "/models"}]), "volumeMounts[/models]"),
        (ContainerPatch(resources={"limits": {"cpu": "2"}}), "resources.limits.cpu"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_two_that_set_the_same_of_the_main_container_are_one_too(
    patch: ContainerPatch, path: str
) -> None:
    with pytest.raises(CollisionError) as caught:
        assemble("engine", [FIRST, Contribution("other", main=patch)])
    assert f"spec.containers[engine].{path}" in str(caught.value)

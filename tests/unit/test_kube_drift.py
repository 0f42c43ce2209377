"""A child is applied when something that we wish is not there, and never otherwise."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moriio_operator.api.names import ANNOTATION_APPLIED
from moriio_operator.kube.drift import drifted, stamped

from unit.samples import FULL, REVISION, Json, children_of, owner

BUILT = {
    f"{child['kind']} {child['metadata']['name']}": stamped(child, ANNOTATION_APPLIED)
    for child in children_of(owner({}, base=FULL))
}
CLIENT = BUILT["Service llm"]
ROUTER = BUILT[f"Deployment llm-router-{REVISION}"]


def edited(obj: Json, edit: Callable[[Json], Any]) -> Json:
    live = copy.deepcopy(obj)
    edit(live)
    return live


def router(live: Json) -> Json:
    found: Json = live["spec"]["template"]["spec"]["containers"][0]
    return found


def served(obj: Json) -> Json:
    """The object as the API server gives it back: with its own fields and defaults."""
    live = copy.deepcopy(obj)
    live["metadata"].update(
        uid="u", resourceVersion="7", generation=2, managedFields=[{"manager": "x"}]
    )
    live["status"] = {"replicas": 1}
    if live["kind"] == "Service":
        live["spec"].update(clusterIPs=["198.18.0.1"], sessionAffinity="None")
        live["spec"].setdefault("clusterIP", "198.18.0.1")
    if live["kind"] == "Deployment":
        live["spec"].update(progressDeadlineSeconds=600, revisionHistoryLimit=10)
        live["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = "1"
        router(live).update(imagePullPolicy="IfNotPresent", terminationMessagePath="/dev/x")
        router(live)["readinessProbe"]["httpGet"]["scheme"] = "HTTP"
        live["spec"]["template"]["spec"].update(dnsPolicy="ClusterFirst")
    return live


@pytest.mark.parametrize("child", BUILT.values(), ids=BUILT.keys())
def test_what_was_just_applied_is_no_drift(child: Json) -> None:
    assert not drifted(child, child)
    assert not drifted(child, served(child))


def test_resources_with_an_empty_map_are_no_drift() -> None:
    wish = owner({"router": {"resources": {"requests": {}, "limits": {"cpu": "1"}}}})
    deployment = stamped(children_of(wish)[-1], ANNOTATION_APPLIED)
    live = served(deployment)
    # The API server leaves empty maps out.
    router(live)["resources"] = {"limits": {"cpu": "1"}}
    assert not drifted(deployment, live)


def set_in(*path: str | int, value: Any) -> Callable[[Json], None]:
    def edit(live: Json) -> None:
        node: Any = live
        for step in path[:-1]:
            node = node[step]
        node[path[-1]] = value

    return edit


POD = ("spec", "template", "spec")

DRIFT: list[tuple[Json, Callable[[Json], Any]]] = [
    (CLIENT, set_in("spec", "selector", "moriio.dev/revision", value="other")),
    (CLIENT, set_in("spec", "selector", "extra", value="x")),
    (CLIENT, set_in("spec", "ports", 0, "targetPort", value=80)),
    (CLIENT, set_in("spec", "ports", value=[])),
    (CLIENT, set_in("spec", "ports", value=None)),
    (CLIENT, lambda live: live.pop("spec")),
    (CLIENT, set_in("metadata", "labels", value={})),
    (CLIENT, set_in("metadata", "ownerReferences", value=[])),
    (CLIENT, lambda live: live["metadata"].pop("annotations")),
    (ROUTER, set_in("spec", "replicas", value=1)),
    (ROUTER, set_in("spec", "selector", "matchLabels", "extra", value="x")),
    (ROUTER, lambda live: router(live)["args"].append("--more")),
    (ROUTER, lambda live: router(live)["args"].pop()),
    (ROUTER, lambda live: router(live).pop("readinessProbe")),
    (ROUTER, lambda live: router(live).update(image="other")),
    (ROUTER, lambda live: router(live)["resources"]["limits"].update(memory="2Gi")),
    (ROUTER, lambda live: router(live)["securityContext"].update(readOnlyRootFilesystem=False)),
    (ROUTER, set_in(*POD, "containers", value=[{"name": "other"}])),
    (ROUTER, set_in(*POD, "volumes", 0, "projected", "sources", value=[])),
    (ROUTER, set_in(*POD, "automountServiceAccountToken", value=True)),
]

NO_DRIFT: list[tuple[Json, Callable[[Json], Any]]] = [
    (CLIENT, set_in("metadata", "labels", "theirs", value="x")),
    (CLIENT, set_in("metadata", "annotations", "theirs", value="x")),
    (CLIENT, set_in("spec", "internalTrafficPolicy", value="Cluster")),
    (CLIENT, lambda live: live["metadata"]["ownerReferences"].append({"name": "x", "uid": "u"})),
    # An owner of another kind may have the same name, before or after ours.
    (CLIENT, lambda live: live["metadata"]["ownerReferences"].append({"name": "llm", "uid": "u"})),
    (
        CLIENT,
        lambda live: live["metadata"]["ownerReferences"].insert(0, {"name": "llm", "uid": "u"}),
    ),
    (ROUTER, lambda live: router(live).update(env=[{"name": "INJECTED"}])),
    (ROUTER, lambda live: live["spec"]["template"]["spec"]["containers"].append({"name": "mesh"})),
    (ROUTER, lambda live: live["spec"]["template"]["spec"]["containers"].insert(0, {"name": "m"})),
    # One amount, spelled otherwise.
    (ROUTER, lambda live: router(live)["resources"]["limits"].update(memory="1024Mi")),
    (ROUTER, lambda live: router(live)["resources"]["requests"].update(cpu="1000m")),
]


@pytest.mark.parametrize(("child", "edit"), DRIFT)
def test_what_is_wished_and_not_there_is_drift(child: Json, edit: Callable[[Json], Any]) -> None:
    assert drifted(child, edited(served(child), edit))


@pytest.mark.parametrize(("child", "edit"), NO_DRIFT)
def test_what_others_added_is_theirs(child: Json, edit: Callable[[Json], Any]) -> None:
    assert not drifted(child, edited(served(child), edit))


def test_a_wish_that_was_dropped_is_drift_by_its_stamp() -> None:
    fewer = copy.deepcopy(CLIENT)
    del fewer["metadata"]["annotations"]
    fewer["metadata"]["labels"].pop("moriio.dev/component")
    assert drifted(stamped(fewer, ANNOTATION_APPLIED), served(CLIENT))


def test_the_stamp_is_the_same_for_the_same_wish_and_keeps_other_annotations() -> None:
    plain: Json = {"metadata": {"name": "x", "annotations": {"a": "b"}}, "spec": {"x": 1, "y": 2}}
    turned = {"spec": {"y": 2, "x": 1}, "metadata": {"annotations": {"a": "b"}, "name": "x"}}
    assert stamped(plain, ANNOTATION_APPLIED) == stamped(turned, ANNOTATION_APPLIED)
    assert stamped(plain, ANNOTATION_APPLIED)["metadata"]["annotations"].keys() == {
        "a",
        ANNOTATION_APPLIED,
    }
    assert "annotations" in plain["metadata"]
    assert ANNOTATION_APPLIED not in plain["metadata"]["annotations"]


def test_another_wish_has_another_stamp() -> None:
    one, other = (
        stamped({"metadata": {}, "spec": 1}, ANNOTATION_APPLIED),
        stamped({"metadata": {}, "spec": 2}, ANNOTATION_APPLIED),
    )
    key = ("metadata", "annotations")
    assert one[key[0]][key[1]] != other[key[0]][key[1]]


@pytest.mark.parametrize(
    ("wish", "live", "drift"),
    [
        ("1", "1", False),
        ("1Gi", "1024Mi", False),
        ("1000m", "1", False),
        ("0.5", "500m", False),
        ("1e3", "1k", False),
        ("1Gi", "1G", True),
        ("1", "2", True),
        ("1", "x", True),
        ("1", "", True),
        ("1", None, True),
        ("1", 1, True),
        ("1", "NaN", True),
        ("1", "sNaN", True),
        ("sNaN", "1", True),
        ("1", "Infinity", True),
        ("1", "1e999999999", True),
    ],
)
def test_amounts(wish: str, live: Any, *, drift: bool) -> None:
    assert drifted({"amount": wish}, {"amount": live}) is drift


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["name", "selector", "a", "b"]), inner, max_size=3),
    ),
    max_leaves=10,
)
OBJECTS = st.dictionaries(st.sampled_from(["spec", "data", "metadata"]), JSON)


@given(OBJECTS)
def test_nothing_drifts_from_itself(obj: Json) -> None:
    assert not drifted(obj, copy.deepcopy(obj))


@given(OBJECTS, OBJECTS)
def test_a_live_object_of_any_shape_gives_an_answer(wish: Json, live: Json) -> None:
    assert drifted(wish, live) in (True, False)

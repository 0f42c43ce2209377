"""The pod template: an allowlist with a path in each refusal, and never an exception."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from moriio_operator.admission.validate import problems
from moriio_operator.facts.terms import Role

from unit.samples import POLICY, PORTS, REVISION, Json, engine_pod, owner, template_owner


def told(template: Any) -> list[str]:
    """What a user reads, with the path from podTemplate on."""
    found = [str(problem) for problem in problems(template_owner(template), POLICY, PORTS)]
    return [text.removeprefix("spec.decode.podTemplate") for text in found]


def built(template: Any) -> Json:
    return engine_pod(template_owner(template), "llm-decode-0", Role.DECODE, REVISION, 20_000)


def in_engine(**fields: Any) -> Json:
    return {"spec": {"containers": [{"name": "engine", **fields}]}}


def in_sidecar(**fields: Any) -> Json:
    return {"spec": {"containers": [{"name": "log", "image": "log:1", **fields}]}}


def volumes(*items: Any) -> Json:
    return {"spec": {"volumes": list(items)}}


OWNS = "may not be set here, the operator owns it; allowed are "
SPEC_FIELDS = (
    "affinity, nodeSelector, priorityClassName, runtimeClassName, schedulerName, tolerations, "
    "topologySpreadConstraints, containers, volumes"
)
ENGINE = ".spec.containers[0]"

NO_OBJECTS: tuple[Any, ...] = (None, [], "", 5)
NO_LISTS: tuple[Any, ...] = (None, {}, "", 0, False, "x")
REFUSED: list[tuple[Any, str]] = [
    ({"kind": "Pod"}, f".kind: {OWNS}metadata, spec"),
    ({"metadata": {"name": "x"}}, f".metadata.name: {OWNS}annotations, labels"),
    ({"metadata": {"finalizers": []}}, f".metadata.finalizers: {OWNS}annotations, labels"),
    ({"metadata": "x"}, ".metadata: must be an object"),
    ({"metadata": {"labels": ["a"]}}, ".metadata.labels: must be an object"),
    (
        {"metadata": {"labels": {"moriio.dev/role": "x"}}},
        ".metadata.labels[moriio.dev/role]: is the operator's own: choose another key",
    ),
    (
        {"metadata": {"annotations": {"moriio.dev/new": "x"}}},
        ".metadata.annotations[moriio.dev/new]: is the operator's own: choose another key",
    ),
    (
        {"metadata": {"labels": {"app.kubernetes.io/managed-by": "x"}}},
        ".metadata.labels[app.kubernetes.io/managed-by]: is the operator's own: choose another key",
    ),
    ({"spec": [1]}, ".spec: must be an object"),
    *(
        ({"spec": {field: value}}, f".spec.{field}: {OWNS}{SPEC_FIELDS}")
        for field, value in (
            ("hostNetwork", True),
            ("hostPID", True),
            ("hostIPC", True),
            ("nodeName", "n1"),
            ("serviceAccountName", "admin"),
            ("automountServiceAccountToken", True),
            ("restartPolicy", "Always"),
            ("securityContext", {}),
            ("initContainers", []),
            ("ephemeralContainers", []),
            ("terminationGracePeriodSeconds", 0),
            ("dnsPolicy", "None"),
            ("$patch", "replace"),
            ("$setElementOrder/containers", []),
        )
    ),
    ({"spec": {"containers": None}}, ".spec.containers: must be a list"),
    ({"spec": {"containers": {}}}, ".spec.containers: must be a list"),
    ({"spec": {"containers": [5]}}, ".spec.containers[0]: must be an object with a name"),
    ({"spec": {"containers": [{}]}}, ".spec.containers[0]: must be an object with a name"),
    (
        {"spec": {"containers": [{"name": "log"}, {"name": "log"}]}},
        ".spec.containers[1].name: 'log' is given twice",
    ),
    *(
        (
            {"spec": {"containers": [{"name": name, "image": "x"}]}},
            f".spec.containers[0].name: {name!r} is the operator's own: choose another name",
        )
        for name in ("router", "registrar", "sentinel")
    ),
    *(
        (in_engine(**{field: value}), f"{ENGINE}.{field}: {OWNS}env, name, resources, volumeMounts")
        for field, value in (
            ("image", "other"),
            ("args", []),
            ("command", ["sh"]),
            ("ports", []),
            ("envFrom", []),
            ("securityContext", {}),
            ("livenessProbe", {}),
            ("lifecycle", {}),
            ("restartPolicy", "Always"),
        )
    ),
    (in_engine(env=None), f"{ENGINE}.env: must be a list"),
    (in_engine(env={}), f"{ENGINE}.env: must be a list"),
    (in_engine(env=[{"value": "x"}]), f"{ENGINE}.env[0]: must be an object with a name"),
    (
        in_engine(env=[{"name": "A"}, {"name": "A"}]),
        f"{ENGINE}.env[1].name: 'A' is given twice",
    ),
    *(
        (
            in_engine(env=[{"name": name, "value": "1"}]),
            f"{ENGINE}.env[0].name: {name} is set by the operator: remove it",
        )
        for name in (
            "POD_IP",
            "VLLM_HOST_IP",
            "VLLM_PORT",
            "HIP_VISIBLE_DEVICES",
            "CUDA_VISIBLE_DEVICES",
            "ROCR_VISIBLE_DEVICES",
            "VLLM_MORIIO_TRANSFER_TIMEOUT_S",
        )
    ),
    *(
        (in_engine(volumeMounts=none), f"{ENGINE}.volumeMounts: must be a list")
        for none in NO_LISTS
    ),
    *((in_engine(resources=none), f"{ENGINE}.resources: must be an object") for none in NO_OBJECTS),
    (in_engine(resources={"limits": None}), f"{ENGINE}.resources.limits: must be an object"),
    (in_engine(volumeMounts=[{}]), f"{ENGINE}.volumeMounts[0]: must be an object with a mountPath"),
    *(
        (
            in_engine(volumeMounts=[{"name": "x", "mountPath": path}]),
            f"{ENGINE}.volumeMounts[0].mountPath: {path} is mounted by the operator: remove it",
        )
        for path in (
            "/dev/shm",
            "/dev/shm/",
            "/dev//shm",
            "/dev/./shm",
            "/models/../dev/shm",
            "/models",
            "/dev/kfd",
            "/dev/dri",
            "/dev/infiniband",
        )
    ),
    (
        in_engine(
            volumeMounts=[{"name": "a", "mountPath": "/x"}, {"name": "b", "mountPath": "/x/"}]
        ),
        f"{ENGINE}.volumeMounts[1].mountPath: /x/ is given twice",
    ),
    *(
        (
            volumes({"name": name, "emptyDir": {}}),
            f".spec.volumes[0].name: {name!r} is the operator's own: choose another name",
        )
        for name in ("cache", "shm", "infiniband", "kfd", "dri")
    ),
    (volumes("x"), ".spec.volumes[0]: must be an object with a name"),
    ({"spec": {"volumes": None}}, ".spec.volumes: must be a list"),
    (
        volumes({"name": "x", "$patch": "delete"}),
        ".spec.volumes[0].$patch: directives are not taken: leave the item out",
    ),
    *(
        (
            in_sidecar(securityContext={field: value}),
            f"{ENGINE}.securityContext.{field}: is not given to sidecars: remove it",
        )
        for field, value in (
            ("privileged", True),
            ("capabilities", {"add": ["SYS_ADMIN"]}),
            ("allowPrivilegeEscalation", True),
            ("procMount", "Unmasked"),
        )
    ),
    (
        in_sidecar(ports=[{"containerPort": 1}, {"containerPort": 2, "hostPort": 2}]),
        f"{ENGINE}.ports[1].hostPort: may not be set here: remove it",
    ),
    (in_sidecar(ports=5), f"{ENGINE}.ports: must be a list"),
    *(
        (
            in_sidecar(
                volumeMounts=[
                    {"name": "scratch", "mountPath": "/scratch"},
                    {"name": device, "mountPath": "/devices"},
                ]
            ),
            f"{ENGINE}.volumeMounts[1].name: devices are for the engine alone: remove it",
        )
        for device in ("kfd", "dri", "infiniband")
    ),
    (
        in_sidecar(volumeDevices=[{"name": "x", "devicePath": "/dev/x"}]),
        f"{ENGINE}.volumeDevices: may not be set here: remove it",
    ),
]

TAKEN: list[Any] = [
    None,
    {},
    {"metadata": {"labels": {"team": "a"}, "annotations": {"team/x": "b"}}},
    {"metadata": {"labels": {"moriio.device/x": "a"}}},
    {"metadata": None, "spec": None},
    *(
        {"spec": {field: value}}
        for field, value in (
            ("affinity", {"nodeAffinity": {}}),
            ("nodeSelector", {"pool": "gpu"}),
            ("priorityClassName", "high"),
            ("runtimeClassName", "kata"),
            ("schedulerName", "other"),
            ("tolerations", [{"operator": "Exists"}]),
            ("topologySpreadConstraints", [{"topologyKey": "zone"}]),
        )
    ),
    {"spec": {"containers": []}},
    {"spec": {"containers": [{"name": "log"}, {"name": "metrics"}]}},
    in_engine(env=[{"name": "A", "value": "1"}, {"name": "VLLM_LOGGING_LEVEL"}]),
    in_engine(env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]),
    in_engine(volumeMounts=[{"name": "x", "mountPath": "/models/sub"}]),
    in_engine(volumeMounts=[{"name": "x", "mountPath": "/dev/shm2"}]),
    in_engine(resources={"limits": {"memory": "1Gi"}}),
    volumes({"name": "scratch", "emptyDir": {}}),
    in_sidecar(securityContext={"runAsNonRoot": True}),
    in_sidecar(ports=[{"containerPort": 9100}]),
    in_sidecar(args=["-v"], env=[{"name": "POD_IP", "value": "x"}], livenessProbe={}),
    in_sidecar(volumeMounts=[{"name": "cache", "mountPath": "/models"}]),
    in_sidecar(volumeMounts=[{"name": "shm", "mountPath": "/dev/shm"}]),
    in_sidecar(volumeMounts=[None, 5, {}]),
    in_sidecar(volumeMounts=None),
]


@pytest.mark.parametrize(("template", "message"), REFUSED, ids=lambda v: str(v)[:60])
def test_refused_with_path_and_reason(template: Any, message: str) -> None:
    assert told(template) == [message]


@pytest.mark.parametrize("template", TAKEN, ids=lambda v: str(v)[:60])
def test_taken(template: Any) -> None:
    assert told(template) == []


def test_every_problem_of_both_roles_is_told_at_once() -> None:
    wrong = {"spec": {"hostNetwork": True, "nodeName": "n1"}}
    both = owner({"prefill": {"podTemplate": wrong}, "decode": {"podTemplate": wrong}})
    paths = [problem.path for problem in problems(both, POLICY, PORTS)]
    assert paths == [
        "spec.prefill.podTemplate.spec.hostNetwork",
        "spec.prefill.podTemplate.spec.nodeName",
        "spec.decode.podTemplate.spec.hostNetwork",
        "spec.decode.podTemplate.spec.nodeName",
    ]


def test_every_refusal_has_the_reason_of_templates() -> None:
    found = problems(template_owner({"spec": {"nodeName": "n1"}}), POLICY, PORTS)
    assert [problem.reason for problem in found] == ["TemplateRefused"]


# Random templates, made of the words that matter here so that they get past the first check.
WORDS = st.sampled_from(
    [
        "metadata", "spec", "labels", "annotations", "containers", "volumes", "name", "env",
        "value", "engine", "log", "router", "volumeMounts", "mountPath", "/x", "ports", "hostPort",
        "securityContext", "privileged", "resources", "limits", "hostPath", "path", "/srv/models",
        "topologySpreadConstraints", "topologyKey", "tolerations", "volumeDevices", "moriio.dev/x",
    ]
)  # fmt: skip
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-2, 2), st.just(0.5), WORDS, st.text())
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(WORDS, inner, max_size=4)),
    max_leaves=12,
)


def listed(item: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(ANYTHING, st.lists(st.one_of(item, ANYTHING), max_size=3))


def shaped(required: dict[str, Any], optional: dict[str, Any]) -> st.SearchStrategy[Any]:
    fixed = {key: st.just(value) for key, value in required.items()}
    return st.fixed_dictionaries(fixed, optional=optional)


ENV = shaped({}, {"name": st.sampled_from(["A", "B", "POD_IP"]), "value": ANYTHING})
MOUNT = shaped({}, {"name": ANYTHING, "mountPath": st.sampled_from(["/x", "/y", "/models"])})
ENGINES = shaped(
    {"name": "engine"}, {"env": listed(ENV), "volumeMounts": listed(MOUNT), "resources": ANYTHING}
)
SIDECARS = shaped(
    {"name": "log"},
    {
        "ports": ANYTHING,
        "securityContext": ANYTHING,
        "env": ANYTHING,
        "volumeDevices": ANYTHING,
        "volumeMounts": ANYTHING,
    },
)
VOLUMES = shaped({}, {"name": st.sampled_from(["a", "b", "shm"]), "hostPath": ANYTHING})
TEMPLATES = st.one_of(
    st.dictionaries(WORDS, ANYTHING, max_size=3),
    shaped(
        {},
        {
            "metadata": ANYTHING,
            "spec": shaped(
                {},
                {
                    "containers": listed(st.one_of(ENGINES, SIDECARS)),
                    "volumes": listed(VOLUMES),
                    "topologySpreadConstraints": ANYTHING,
                    "tolerations": ANYTHING,
                },
            ),
        },
    ),
)


@settings(max_examples=120)
@given(TEMPLATES)
def test_a_template_of_any_shape_gives_problems_and_never_an_exception(template: Json) -> None:
    told(template)


RESOURCES = shaped({}, {"limits": st.dictionaries(WORDS, ANYTHING)})
# What the operator lets through unseen: odd values in allowed places.
FAIR_ENV = st.lists(shaped({}, {"value": ANYTHING, "valueFrom": ANYTHING}), max_size=3).map(
    lambda items: [{**item, "name": f"E{index}"} for index, item in enumerate(items)]
)
FAIR_MOUNTS = st.lists(shaped({}, {"name": ANYTHING, "subPath": ANYTHING}), max_size=3).map(
    lambda items: [{**item, "mountPath": f"/m{index}"} for index, item in enumerate(items)]
)
FAIR = shaped(
    {},
    {
        "metadata": shaped({}, {"labels": st.dictionaries(st.sampled_from("ab"), ANYTHING)}),
        "spec": st.fixed_dictionaries(
            {
                "containers": st.tuples(
                    shaped(
                        {"name": "engine"},
                        {"env": FAIR_ENV, "volumeMounts": FAIR_MOUNTS, "resources": RESOURCES},
                    ),
                    shaped({"name": "log"}, {"env": ANYTHING, "args": ANYTHING}),
                ).map(list),
            },
            optional={
                "volumes": st.just([{"name": "scratch", "emptyDir": None}]),
                "topologySpreadConstraints": ANYTHING,
                "tolerations": ANYTHING,
                "affinity": ANYTHING,
            },
        ),
    },
)


@settings(max_examples=120)
@given(st.one_of(FAIR, TEMPLATES))
def test_what_is_accepted_can_be_built_and_takes_nothing_away(template: Json) -> None:
    if told(template):
        return
    plain, pod = built({}), built(template)
    assert pod["metadata"]["labels"].items() >= plain["metadata"]["labels"].items()
    ours, merged = (p["spec"]["containers"][0] for p in (plain, pod))
    for field in ("name", "image", "args", "ports", "securityContext"):
        assert merged[field] == ours[field]
    assert [item for item in ours["env"] if item not in merged["env"]] == []
    assert [item for item in ours["volumeMounts"] if item not in merged["volumeMounts"]] == []
    assert [v for v in plain["spec"]["volumes"] if v not in pod["spec"]["volumes"]] == []


@settings(max_examples=50)
@given(FAIR)
def test_odd_values_in_allowed_places_are_left_to_the_api_server(template: Json) -> None:
    assert told(template) == []
    assert [c["name"] for c in built(template)["spec"]["containers"][1:]] == ["log"] * (
        "spec" in template
    )

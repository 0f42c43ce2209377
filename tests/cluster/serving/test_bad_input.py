"""Bad PDDeployments, and the exact message that their user sees: at apply, or in the status.

Each row changes one thing of a good deployment. What the API server decides is applied by dry-run,
with an accepted twin beside each rule of ours; what needs the operator is read from the status.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml
from bed.cache import REPO
from bed.cluster import Bed
from bed.errors import BedError
from moriio_operator.api.crd import structural
from moriio_operator.api.deployment import Spec
from moriio_operator.api.kinds import PDDEPLOYMENT
from moriio_operator.api.owned import OWNED_ENVIRONMENT, OWNED_FLAGS
from stage.deployments import Manifest, stub, tiny
from stage.service import Service

pytestmark = pytest.mark.parts(2)

ENGINE_S = 120

# Where a value stands in an object, and a value that is not taken there.
Leaf: TypeAlias = tuple[tuple[str | int, ...], Any]


@pytest.fixture(scope="module")
def namespace_of_this_module(new_namespace: Callable[[], str]) -> str:
    """Give one namespace for all that is tried by dry-run only."""
    return new_namespace()


def changed(namespace: str, path: str, value: Any) -> Manifest:
    """Give a good deployment with one field set; `None` removes it."""
    made = copy.deepcopy(stub(namespace))
    at = made
    *parents, last = path.split(".")
    for part in parents:
        at = at.setdefault(part, {})
    if value is None:
        del at[last]
    else:
        at[last] = value
    return made


def create_dry(bed: Bed, manifest: Manifest) -> str:
    """Create by dry-run, as kubectl does; give the API server's refusal, or nothing."""
    path = PDDEPLOYMENT.path(manifest["metadata"]["namespace"])
    try:
        bed.rest.ask("POST", f"{path}?dryRun=All&fieldValidation=Strict", manifest)
    except BedError as error:
        return str(error)
    return ""


def apply_dry(bed: Bed, manifest: Manifest) -> str:
    """Apply by dry-run over what is there; give the API server's refusal, or nothing."""
    try:
        bed.kubectl("apply", "--dry-run=server", "-f", "-", input=json.dumps(manifest))
    except BedError as error:
        return str(error)
    return ""


def flag(name: str) -> str:
    """What is said of a flag: its name, and what to do instead."""
    return f"args must not hold {name}, which the operator sets: {OWNED_FLAGS[name]}"


SHORT = "args must use the long forms of flags, such as --quantization for -q: write them out"
VARIABLES = (
    f"env must not hold a variable that the operator sets ({', '.join(OWNED_ENVIRONMENT)}, "
    "VLLM_MORIIO_*, which vLLM ignores since 0.23): remove it; use the fields for devices and "
    "connector"
)
NAME = (
    "metadata.name must be at most 40 characters, begin with a letter and contain only a-z, 0-9 "
    "and '-', so that the names of its Services and pods are valid: choose another name"
)


def range_of(start: int, end: int) -> dict[str, int]:
    """A range of ports."""
    return {"start": start, "end": end}


CACHE = "spec.model.cache: give exactly one of persistentVolumeClaim, emptyDir and hostPath"

# path, bad value, message at apply, and a value that is taken there.
AT_APPLY: list[tuple[str, Any, str, Any]] = [
    ("metadata.name", "x" * 41, NAME, "x" * 40),
    ("metadata.name", "a.b", NAME, "a-b"),
    ("metadata.name", "vllm", "metadata.name must not be one of vllm, vllm-dp-master", "vllm-a"),
    (
        "spec.network.mode",
        "Overlay",
        'spec.network.mode: Unsupported value: "Overlay": supported values: "Host", "Pod"',
        "Pod",
    ),
    ("spec.network", None, "spec.network: Required value", {"mode": "Pod"}),
    (
        "spec.devices.fabric",
        "RoCE",
        "spec.devices.fabric: RoCE needs the host's network interfaces, which the pod network "
        "does not provide: set spec.network.mode to Host, or use InfiniBand",
        "InfiniBand",
    ),
    (
        "spec.model.name",
        "/data/tiny",
        "spec.model.name: an absolute path must lie under /models/, where the cache is mounted, "
        "and hold no '..'; or give a model's name on the hub",
        "/models/tiny",
    ),
    (
        "spec.model.name",
        "/models/../etc",
        "spec.model.name: an absolute path must lie under /models/",
        "org/model",
    ),
    (
        "spec.model.cache",
        {"emptyDir": {}, "persistentVolumeClaim": {"claimName": "models"}},
        CACHE,
        {"emptyDir": {}},
    ),
    ("spec.model.cache", {}, CACHE, {"persistentVolumeClaim": {"claimName": "models"}}),
    (
        "spec.prefill.replicas",
        0,
        "spec.prefill.replicas in body should be greater than or equal to 1",
        1,
    ),
    (
        "spec.decode.replicas",
        257,
        "spec.decode.replicas in body should be less than or equal to 256",
        256,
    ),
    ("spec.prefill.args", ["--port=1"], flag("--port"), ["--max-num-seqs=1"]),
    (
        "spec.prefill.args",
        ["--seed=1", "--kv_transfer_config.kv_role", "x"],
        flag("--kv-transfer-config"),
        ["--port-like=1"],
    ),
    ("spec.decode.args", ["--tensor-par", "2"], flag("--tensor-parallel-size"), ["--seed", "-1"]),
    ("spec.decode.args", ["-tp", "2"], SHORT, ["--"]),
    (
        "spec.model.servedName",
        "--headless",
        "spec.model.servedName in body should match '^[^-]'",
        "a-b",
    ),
    (
        "spec.prefill.resources",
        {"limits": {"cpu": "4 cores"}},
        "spec.prefill.resources.limits.cpu in body should match",
        {"limits": {"cpu": 4}},
    ),
    (
        "spec.prefill.env",
        [{"name": "VLLM_HOST_IP", "value": "1"}],
        VARIABLES,
        [{"name": "VLLM_USE_V1", "value": "1"}],
    ),
    ("spec.decode.env", [{"name": "VLLM_MORIIO_QP_PER_TRANSFER"}], VARIABLES, [{"name": "A"}]),
    (
        "spec.prefill.devices",
        {"gpu": {"resourceName": "amd.com/gpu"}},
        "devices.gpu: give resourceName and count together, or neither",
        {"gpu": {"resourceName": "amd.com/gpu", "count": 8}},
    ),
    (
        "spec.prefill.devices",
        {"gpu": {"visibleDevices": "all"}},
        "spec.prefill.devices.gpu.visibleDevices in body should match",
        {"gpu": {"visibleDevices": "0,1"}},
    ),
    (
        "spec.model.tokenSecretKeyRef",
        {"name": "hub"},
        "spec.model.tokenSecretKeyRef.key: Required value",
        {"name": "hub", "key": "token"},
    ),
    (
        "spec.engine.apiKeySecretKeyRef",
        {"name": "Api", "key": "key"},
        "spec.engine.apiKeySecretKeyRef.name in body should match",
        {"name": "api", "key": "key"},
    ),
    ("spec.engine.imagePullSecrets", [{}], "spec.engine.imagePullSecrets[0].name: Required", []),
    ("spec.router.replicas", 0, "spec.router.replicas in body should be greater than", 64),
    ("spec.router.requestTimeoutSeconds", 86_401, "should be less than or equal to 86400", 86_400),
    ("spec.connector.qpPerTransfer", 65, "should be less than or equal to 64", 64),
    ("spec.connector.postBatchSize", -2, "should be greater than or equal to -1", -1),
    ("spec.prefill.parallelism", {"tensor": 17}, "should be less than or equal to 16", {}),
    (
        "spec.decode.parallelism",
        {"tensor": 2, "dataLocal": 4},
        "parallelism: tensor and dataLocal must not both be larger than 1",
        {"tensor": 1, "dataLocal": 4},
    ),
    (
        "spec.connector.backend",
        "XGMI",
        "spec.connector.backend: XGMI shares GPU memory between processes, which needs the host's "
        "namespaces: set spec.network.mode to Host, or use RDMA",
        "RDMA",
    ),
    ("spec.network.portRange", range_of(25_001, 25_000), "start must not be larger", None),
    *(
        ("spec.network.portRange", range_of(*ports), "must not overlap ports reserved for", None)
        for ports in ((2_000, 2_379), (10_259, 20_000), (29_999, 30_000), (60_999, 65_000))
    ),
    (
        "spec.network.portRange",
        range_of(1_023, 2_000),
        "should be greater than or equal to 1024",
        range_of(20_000, 29_999),
    ),
    (
        "spec.engine.version",
        "latest",
        "spec.engine.version in body should match",
        "v0.33.0",
    ),
    ("spec.model.config", {"layers": []}, "should have at least 1 items", {"kvHeads": 8}),
    ("spec.decode.startupTimeoutSeconds", 0, "should be greater than or equal to 1", 1),
    ("spec.rollout.drainTimeoutSeconds", 0, "should be greater than or equal to 1", 1),
    ("spec.router.policy", "Fair", 'spec.router.policy: Unsupported value: "Fair"', "RoundRobin"),
    ("spec.connector.mode", "READ", 'spec.connector.mode: Unsupported value: "READ"', "Write"),
    ("spec.connector.modes", "Read", 'unknown field "spec.connector.modes"', None),
    ("spec.prefill.replica", 2, 'unknown field "spec.prefill.replica"', None),
]


@pytest.mark.parametrize(
    ("path", "bad", "message", "good"),
    AT_APPLY,
    ids=[f"{path.removeprefix('spec.')}-{i}" for i, (path, *_) in enumerate(AT_APPLY)],
)
def test_the_api_server_refuses_what_one_object_decides(
    operator: Bed, namespace_of_this_module: str, path: str, bad: Any, message: str, good: Any
) -> None:
    namespace = namespace_of_this_module
    assert message in create_dry(operator, changed(namespace, path, bad))
    twin = stub(namespace) if good is None else changed(namespace, path, good)
    assert create_dry(operator, twin) == ""


def leaves(schema: dict[str, Any], path: tuple[str | int, ...]) -> Iterator[Leaf]:
    """Walk a schema to its ends: where, and what may never stand there."""
    if "properties" in schema:
        for name, inner in schema["properties"].items():
            yield from leaves(inner, (*path, name))
    elif isinstance(schema.get("additionalProperties"), dict):
        yield from leaves(schema["additionalProperties"], (*path, "x"))
    elif isinstance(schema.get("items"), dict):
        yield from leaves(schema["items"], (*path, 0))
    else:
        yield path, 7 if schema.get("type") == "string" else ["x"]


FIELDS = dict(leaves(structural(Spec.model_json_schema(by_alias=True)), ("spec",)))


def with_value(made: Any, path: tuple[str | int, ...], value: Any) -> Any:
    """Set a value deep in an object, making what is missing on the way."""
    if not path:
        return value
    first, *rest = path
    if first == 0:
        return [with_value({}, tuple(rest), value)]
    inside = made.get(first, {}) if isinstance(made, dict) else {}
    return {**made, first: with_value(inside, tuple(rest), value)}


def written(path: tuple[str | int, ...]) -> str:
    """Write a path as the API server does."""
    return "".join(f"[{p}]" if p == 0 else f".{p}" for p in path).lstrip(".")


@pytest.mark.parametrize("path", FIELDS, ids=written)
def test_every_field_refuses_a_value_of_another_type_by_its_name(
    operator: Bed, namespace_of_this_module: str, path: tuple[str | int, ...]
) -> None:
    good = stub(namespace_of_this_module)
    assert written(path) in create_dry(operator, with_value(good, path, FIELDS[path]))


@pytest.mark.parametrize(
    "example", sorted((REPO / "examples").glob("*.yaml")), ids=lambda p: p.name
)
def test_the_examples_are_accepted(operator: Bed, namespace: str, example: Path) -> None:
    manifest = yaml.safe_load(example.read_text())
    manifest["metadata"]["namespace"] = namespace
    assert create_dry(operator, manifest) == ""


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_a_dense_model_has_no_data_parallel_ranks(
    operator: Bed, namespace_of_this_module: str, role: str
) -> None:
    manifest = changed(namespace_of_this_module, "spec.model.config", {"architecture": "Dense"})
    assert create_dry(operator, manifest) == ""
    manifest["spec"][role]["parallelism"] = {"dataLocal": 2}
    assert (
        "parallelism.dataLocal: must be 1 for a dense model, since vLLM starts every rank of one "
        "as rank 0, so all ranks bind the same ports: use spec.prefill.replicas and "
        "spec.decode.replicas"
    ) in create_dry(operator, manifest)
    manifest["spec"]["model"]["config"] = {"architecture": "MoE"}
    assert create_dry(operator, manifest) == ""


def test_the_hubs_token_is_not_given_twice(operator: Bed, namespace_of_this_module: str) -> None:
    manifest = changed(
        namespace_of_this_module, "spec.model.tokenSecretKeyRef", {"name": "hub", "key": "token"}
    )
    assert create_dry(operator, manifest) == ""
    for role in ("prefill", "decode"):
        twice = copy.deepcopy(manifest)
        twice["spec"][role]["env"] = [{"name": "HF_TOKEN", "value": "x"}]
        assert (
            "spec.model.tokenSecretKeyRef: Invalid value: env must not hold HF_TOKEN in addition "
            "to spec.model.tokenSecretKeyRef: remove one of them"
        ) in create_dry(operator, twice).replace('"object": ', "").replace('"null": ', "")


def test_the_served_name_is_immutable(operator: Bed, namespace: str) -> None:
    manifest = stub(namespace)
    manifest["spec"]["engine"]["image"] = "localhost/moriio/absent:none"
    Service.apply(operator, manifest)
    other = copy.deepcopy(manifest)
    other["spec"]["model"]["servedName"] = "other"
    assert (
        "spec.model.servedName is immutable: clients ask for it; make a new PDDeployment"
        in apply_dry(operator, other)
    )
    assert apply_dry(operator, manifest) == ""


OWNED = "may not be set here, the operator owns it; allowed are"
TEMPLATE = "spec.decode.podTemplate"
ALLOWED_SPEC = (
    "affinity, nodeSelector, priorityClassName, runtimeClassName, schedulerName, tolerations, "
    "topologySpreadConstraints, containers, volumes"
)


def engine(**fields: Any) -> dict[str, Any]:
    """Give a template that changes the engine container."""
    return {"spec": {"containers": [{"name": "engine", **fields}]}}


# path in the spec, value, reason of Accepted=False, message.
IN_STATUS = [
    (
        "engine.version",
        "0.19.1",
        "VersionTooOld",
        "spec.engine.version: vLLM 0.19.1 is older than 0.20.0, the oldest that is supported",
    ),
    (
        "engine.version",
        "0.22.1",
        "OutsideContract",
        "spec.connector.mode: Read mode of vLLM 0.22.1: ",
    ),
    (
        "decode.args",
        ["--block-size=64"],
        "OutsideContract",
        "spec.decode.args: --block-size is none in spec.prefill.args and 64 in spec.decode.args",
    ),
    (
        "network.portRange",
        {"start": 10_300, "end": 10_400},
        "RefusedByPolicy",
        "spec.network.portRange: 10300-10400 is not within the operator's range 20000-29999: use "
        "a part of that, or the admin widens the chart value ports",
    ),
    (
        "decode.podTemplate",
        {"spec": {"hostNetwork": True}},
        "TemplateRefused",
        f"{TEMPLATE}.spec.hostNetwork: {OWNED} {ALLOWED_SPEC}",
    ),
    (
        "decode.podTemplate",
        {"spec": {"restartPolicy": "Always"}},
        "TemplateRefused",
        f"{TEMPLATE}.spec.restartPolicy: {OWNED} {ALLOWED_SPEC}",
    ),
    (
        "decode.podTemplate",
        engine(image="other"),
        "TemplateRefused",
        f"{TEMPLATE}.spec.containers[0].image: {OWNED} env, name, resources, volumeMounts",
    ),
    (
        "decode.podTemplate",
        engine(env=[{"name": "VLLM_PORT", "value": "1"}]),
        "TemplateRefused",
        f"{TEMPLATE}.spec.containers[0].env[0].name: VLLM_PORT is set by the operator: remove it",
    ),
    (
        "decode.podTemplate",
        engine(volumeMounts=[{"name": "shm", "mountPath": "/dev/shm"}]),
        "TemplateRefused",
        f"{TEMPLATE}.spec.containers[0].volumeMounts[0].mountPath: /dev/shm is mounted by the "
        "operator: remove it",
    ),
    (
        "decode.podTemplate",
        {"metadata": {"labels": {"moriio.dev/role": "prefill"}}},
        "TemplateRefused",
        f"{TEMPLATE}.metadata.labels[moriio.dev/role]: is the operator's own: choose another key",
    ),
    (
        "decode.podTemplate",
        {"spec": {"containers": [{"name": "sentinel", "image": "x"}]}},
        "TemplateRefused",
        f"{TEMPLATE}.spec.containers[0].name: 'sentinel' is the operator's own: choose another "
        "name",
    ),
    (
        "decode.podTemplate",
        {"spec": {"volumes": [{"name": "root", "hostPath": {"path": "/"}}]}},
        "RefusedByPolicy",
        f"{TEMPLATE}.spec.volumes[0].hostPath.path: '/' is below none of the folders that the "
        "admin allows (/mnt/engine, /mnt/models): use one of them, or the admin adds its prefix "
        "to the chart value policy.hostPathPrefixes",
    ),
    (
        "model.cache",
        {"hostPath": {"path": "/mnt/models/../../etc"}},
        "RefusedByPolicy",
        "spec.model.cache.hostPath.path: '/mnt/models/../../etc' is below none of the folders "
        "that the admin allows (/mnt/engine, /mnt/models): use one of them, or the admin adds its "
        "prefix to the chart value policy.hostPathPrefixes",
    ),
    (
        "decode.podTemplate",
        {"spec": {"tolerations": [{"operator": "Sometimes"}]}},
        "TemplateRefused",
        "spec.decode: the API server refuses the engine pod: ",
    ),
    (
        "decode.podTemplate",
        {"spec": {"nodeSelectors": {}}},
        "TemplateRefused",
        f"{TEMPLATE}.spec.nodeSelectors: {OWNED} {ALLOWED_SPEC}",
    ),
]


@pytest.mark.parametrize(
    ("path", "value", "reason", "message"),
    IN_STATUS,
    ids=[f"{reason}-{i}" for i, (_, _, reason, _) in enumerate(IN_STATUS)],
)
def test_the_operator_refuses_what_it_alone_can_judge(
    operator: Bed, namespace: str, path: str, value: Any, reason: str, message: str
) -> None:
    service = Service.apply(operator, changed(namespace, f"spec.{path}", value))
    refused = service.wait_condition("Accepted", "False", reason, 30)
    assert refused["message"].startswith(message)
    assert service.condition("Ready")["status"] == "False"
    assert service.pods() == []
    assert operator.kubectl_json("-n", namespace, "get", "deployments,services")["items"] == []


def test_a_namespace_without_the_admins_leave_gets_nothing(operator: Bed) -> None:
    where = "not-allowed"
    operator.kubectl("create", "namespace", where)
    try:
        service = Service.apply(operator, stub(where))
        refused = service.wait_condition("Accepted", "False", "RefusedByPolicy", 30)
        assert refused["message"] == (
            "spec.devices.profile: namespace 'not-allowed' may not run privileged pods: the admin "
            "adds it to the chart value policy.privilegedNamespaces"
        )
        assert service.pods() == []
    finally:
        operator.kubectl("delete", "namespace", where, "--wait=false")


def test_an_image_that_does_not_exist_is_named(operator: Bed, namespace: str) -> None:
    manifest = changed(namespace, "spec.engine.image", "localhost/moriio/absent:none")
    service = Service.apply(operator, manifest)

    def told() -> bool:
        condition = service.condition("DecodeReady")
        return condition.get("reason") in ("ErrImagePull", "ImagePullBackOff")

    service.wait("the missing image to be told", told, ENGINE_S)
    condition = service.condition("DecodeReady")
    assert "localhost/moriio/absent:none" in condition["message"]
    assert service.condition("Accepted")["status"] == "True"


@pytest.mark.load(2)
def test_an_argument_that_vllm_refuses_is_told_in_its_own_words(
    operator: Bed, namespace: str
) -> None:
    manifest = tiny(namespace, "pd", "Read")
    for role in ("prefill", "decode"):
        manifest["spec"][role]["args"].append("--no-such-flag")
    service = Service.apply(operator, manifest)
    found = service.wait_condition("PrefillReady", "False", "EngineEnded", ENGINE_S)
    assert "unrecognized arguments: --no-such-flag" in found["message"]
    assert "exit code 2" in found["message"]


def test_a_mended_spec_is_acted_on(operator: Bed, namespace: str) -> None:
    bad = changed(namespace, "spec.decode.podTemplate", {"spec": {"hostNetwork": True}})
    service = Service.apply(operator, bad)
    service.wait_condition("Accepted", "False", "TemplateRefused", 30)
    Service.apply(operator, stub(namespace))
    service.wait_settled(90)


def test_a_bad_change_leaves_what_runs(operator: Bed, namespace: str) -> None:
    service = Service.apply(operator, stub(namespace))
    service.wait_settled(90)
    before = [pod["metadata"]["uid"] for pod in service.pods()]
    service.patch(decode={"podTemplate": {"spec": {"hostNetwork": True}}})
    service.wait_condition("Accepted", "False", "TemplateRefused", 30)
    assert service.condition("Ready")["status"] == "True"
    assert [pod["metadata"]["uid"] for pod in service.pods()] == before

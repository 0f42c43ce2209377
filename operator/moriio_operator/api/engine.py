"""Models of what an engine is made from: model, image, connector, and the role with its devices."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from moriio_operator.api import names
from moriio_operator.api.owned import ENVIRONMENT_RULE, FLAGS_RULE, SHORT_FLAGS_RULE
from moriio_operator.api.schema import (
    AbsolutePath,
    ApiModel,
    ObjectName,
    Positional253,
    Positional1024,
    Quantity,
    ResourceName,
    Seconds,
    Text1024,
    free_object,
    list_map,
    rule,
    rules,
    with_rules,
)

MODEL_PATH_RULE = rule(
    f"!self.name.startsWith('/') || (self.name.startsWith('{names.CACHE_MOUNT}/') "
    "&& !self.name.contains('..'))",
    f"spec.model.name: an absolute path must lie under {names.CACHE_MOUNT}/, where the cache is "
    "mounted, and hold no '..'; or give a model's name on the hub",
    ".name",
)
SERVED_NAME_RULE = rule(
    "self == oldSelf",
    "spec.model.servedName is immutable: clients ask for it; make a new PDDeployment",
)


class Mode(StrEnum):
    """Which side moves the KV cache: decode reads it, or prefill writes it."""

    READ = "Read"
    WRITE = "Write"


class PersistentVolumeClaim(ApiModel):
    """A claim in the namespace of the PDDeployment."""

    claim_name: ObjectName = Field(description="Name of the PersistentVolumeClaim.")


class EmptyDir(ApiModel):
    """Scratch space that lives as long as its pod."""

    size_limit: Quantity | None = Field(
        default=None, description="Upper bound of its size; none when left out."
    )


class HostPath(ApiModel):
    """A folder of the node, below a prefix that the admin allows."""

    path: AbsolutePath = Field(description="The folder on the node.")


class Cache(ApiModel):
    """Where model files are kept: exactly one of three kinds of volume."""

    model_config = with_rules(
        rule(
            "[has(self.persistentVolumeClaim), has(self.emptyDir), has(self.hostPath)]"
            ".filter(x, x).size() == 1",
            "spec.model.cache: give exactly one of persistentVolumeClaim, emptyDir and hostPath",
        )
    )

    persistent_volume_claim: PersistentVolumeClaim | None = Field(
        default=None, description="Keep the files in a claim, shared by all engines."
    )
    empty_dir: EmptyDir | None = Field(
        default=None, description="Download the files anew into each engine pod."
    )
    host_path: HostPath | None = Field(
        default=None,
        description="Use a folder of the node; its path must lie below one of the chart value "
        "policy.hostPathPrefixes.",
    )


class SecretKeyRef(ApiModel):
    """One key of a Secret in the same namespace. The operator itself cannot read Secrets."""

    name: ObjectName = Field(description="Name of the Secret.")
    key: Annotated[
        str, StringConstraints(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")
    ] = Field(description="Key in the Secret.")


class Model(ApiModel):
    """The model that all engines serve."""

    model_config = with_rules(MODEL_PATH_RULE)

    name: Positional1024 = Field(
        description="Name on the hub, or an absolute path below "
        f"{names.CACHE_MOUNT}, where the cache is mounted."
    )
    served_name: Positional253 = Field(
        description="The name that clients send in `model`. Immutable.",
        json_schema_extra=rules(SERVED_NAME_RULE),
    )
    token_secret_key_ref: SecretKeyRef | None = Field(
        default=None,
        description="The hub's access token, for models that need one (HF_TOKEN of the engines).",
    )
    cache: Cache | None = Field(
        default=None,
        description=f"The volume mounted at {names.CACHE_MOUNT} (HF_HOME is a folder in it); "
        "an emptyDir when left out.",
    )


class PullSecret(ApiModel):
    """A reference to an image pull secret in the same namespace."""

    name: ObjectName = Field(description="Name of the Secret.")


class Engine(ApiModel):
    """The container image of prefill and decode alike."""

    image: Text1024 = Field(
        description="Image whose entry point is `vllm serve`, such as vllm/vllm-openai-rocm."
    )
    image_pull_secrets: list[PullSecret] = Field(
        default_factory=list,
        max_length=8,
        description="Secrets to pull the engine and router images with.",
        json_schema_extra=list_map("name"),
    )
    api_key_secret_key_ref: SecretKeyRef | None = Field(
        default=None,
        description="A key that engines ask of their callers, and that the routers send them; it "
        "closes the engines to others, not the routers to clients. Another reference makes a new "
        "revision. The Secret's own value must not change while engines use it: to rotate the "
        "key, make another Secret and refer to that.",
    )


class Connector(ApiModel):
    """Settings of vLLM's MoRIIOConnector; every one is written out, none left to a default."""

    mode: Mode = Field(
        description="Read: decode fetches the KV cache after prefill answered; failures are seen "
        "at once. Write: prefill pushes it layer by layer; a lost prefill is seen only at the "
        "router's request timeout."
    )
    qp_per_transfer: int = Field(
        default=1, ge=1, le=64, description="RDMA queue pairs a transfer (qp_per_transfer)."
    )
    post_batch_size: int = Field(
        default=-1,
        ge=-1,
        le=65_536,
        description="Work requests posted at once; -1 leaves it to MORI (post_batch_size).",
    )
    workers: int = Field(
        default=1, ge=1, le=64, description="Threads that post transfers (num_workers)."
    )
    transfer_timeout_seconds: Seconds = Field(
        default=30, description="How long one transfer may take (transfer_timeout)."
    )
    defer_timeout_seconds: Seconds = Field(
        default=60,
        description="How long prefill keeps blocks that no decode fetched (defer_timeout).",
    )
    receive_abort_timeout_seconds: Seconds = Field(
        default=120,
        description="How long decode waits for a read before it gives up (recv_abort_timeout).",
    )


class Parallelism(ApiModel):
    """How one engine is spread over the GPUs of its node."""

    tensor: int = Field(
        default=1, ge=1, le=16, description="Tensor parallel size; one pod holds all ranks."
    )


class Gpu(ApiModel):
    """GPUs of an engine: asked from a device plugin, or named."""

    model_config = with_rules(
        rule(
            "has(self.resourceName) == has(self.count)",
            "devices.gpu: give resourceName and count together, or neither",
        )
    )

    resource_name: ResourceName | None = Field(
        default=None, description="Extended resource of the device plugin, such as amd.com/gpu."
    )
    count: int | None = Field(default=None, ge=1, le=64, description="How many of them.")
    visible_devices: (
        Annotated[str, StringConstraints(max_length=256, pattern=r"^[0-9]+(,[0-9]+)*$")] | None
    ) = Field(
        default=None,
        description="Indices for HIP_VISIBLE_DEVICES and CUDA_VISIBLE_DEVICES alike, such as 0,1. "
        "A privileged pod sees every GPU of its node: name them, or take the whole node.",
    )


class Rdma(ApiModel):
    """RDMA devices of an engine, asked from a device plugin."""

    resource_name: ResourceName = Field(
        description="Extended resource of the device plugin, such as rdma/hca."
    )
    count: int = Field(default=1, ge=1, le=64, description="How many of them.")


class RoleDevices(ApiModel):
    """The devices that each engine of a role asks for."""

    gpu: Gpu | None = Field(default=None, description="GPUs of each engine.")
    rdma: Rdma | None = Field(default=None, description="RDMA devices of each engine.")


class Resources(ApiModel):
    """Resource requests and limits of a container."""

    requests: dict[str, Quantity] | None = Field(
        default=None, max_length=16, description="Least amounts, by resource name."
    )
    limits: dict[str, Quantity] | None = Field(
        default=None, max_length=16, description="Most amounts, by resource name."
    )


class EnvVar(ApiModel):
    """An environment variable with a plain value; use the pod template for references."""

    name: Annotated[
        str, StringConstraints(min_length=1, max_length=253, pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$")
    ] = Field(description="Name of the variable.")
    value: Annotated[str, StringConstraints(max_length=4096)] = Field(
        default="", description="Its value."
    )


class EngineRole(ApiModel):
    """Prefill or decode: how many engines, and what each is."""

    replicas: int = Field(default=1, ge=1, le=256, description="Number of engines of this role.")
    parallelism: Parallelism = Field(
        default=Parallelism(), description="How one engine is spread over GPUs."
    )
    args: list[Annotated[str, StringConstraints(min_length=1, max_length=4096)]] = Field(
        default_factory=list,
        max_length=64,
        description="Further arguments of `vllm serve`, one an item.",
        json_schema_extra={
            **rules(FLAGS_RULE, SHORT_FLAGS_RULE),
            "x-kubernetes-list-type": "atomic",
        },
    )
    env: list[EnvVar] = Field(
        default_factory=list,
        max_length=64,
        description="Environment variables of the engine.",
        json_schema_extra={**list_map("name"), **rules(ENVIRONMENT_RULE)},
    )
    resources: Resources | None = Field(
        default=None, description="Requests and limits of the engine container."
    )
    startup_timeout_seconds: Seconds = Field(
        default=1800,
        description="How long an engine may take from its start to its first healthy answer.",
    )
    devices: RoleDevices = Field(
        default=RoleDevices(), description="Devices that each engine asks for."
    )
    pod_template: dict[str, Any] | None = Field(
        default=None,
        description="A partial PodTemplateSpec merged into the engine pods by Kubernetes' "
        "strategic rules: labels, annotations, scheduling, volumes, sidecars, and env, "
        "volumeMounts and resources of the container `engine`. What the operator owns is refused "
        "with its path.",
        json_schema_extra=free_object,
    )

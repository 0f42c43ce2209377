"""Models of what an engine is made from: image, connector, and the role with its devices."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from moriio_operator.api.model import SecretKeyRef
from moriio_operator.api.owned import ENVIRONMENT_RULE, FLAGS_RULE, SHORT_FLAGS_RULE
from moriio_operator.api.schema import (
    ApiModel,
    ObjectName,
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
from moriio_operator.facts import versions
from moriio_operator.facts.terms import Backend, ConnectorType, Mode
from moriio_operator.facts.versions import Version

ONE_DIMENSION_RULE = rule(
    # The default of the object itself, `{}`, is judged before its fields have theirs.
    "!has(self.tensor) || !has(self.dataLocal) || self.tensor == 1 || self.dataLocal == 1",
    "parallelism: tensor and dataLocal must not both be larger than 1, since vLLM binds the port "
    "of a rank at base + data rank + tensor rank, and two ranks would take the same one and hang: "
    "use tensor alone, or dataLocal alone and more replicas",
)


class PullSecret(ApiModel):
    """A reference to an image pull secret in the same namespace."""

    name: ObjectName = Field(description="Name of the Secret.")


class Engine(ApiModel):
    """The container image of prefill and decode alike."""

    image: Text1024 = Field(
        description="Image whose entry point is `vllm serve`, such as vllm/vllm-openai-rocm."
    )
    version: (
        Annotated[str, StringConstraints(max_length=64, pattern=r"^v?[0-9]+\.[0-9]+(\.[0-9]+)?$")]
        | None
    ) = Field(
        default=None,
        description="Version of vLLM in the image, such as 0.33.0, which decides the rules that "
        "hold; when left out it is read from the tag of an image that is named after vllm. "
        "Another one makes a new revision.",
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

    @property
    def declared_version(self) -> Version | None:
        """The version of vLLM as far as the resource tells it."""
        return versions.declared(self.image, self.version)

    @property
    def ruling_version(self) -> Version:
        """The version of vLLM whose rules apply."""
        return versions.ruling(self.declared_version)


class Connector(ApiModel):
    """Settings of vLLM's MoRIIOConnector; every one is written out, none left to a default."""

    # Any text is read: what an operator does not know is a problem to report, not a crash.
    type: str = Field(
        default=ConnectorType.MORIIO.value,
        description="What carries the KV cache. MoRIIO: vLLM's MoRIIOConnector.",
        json_schema_extra={"enum": [known.value for known in ConnectorType]},
    )
    mode: Mode = Field(
        description="Read: decode fetches the KV cache after prefill answered; failures are seen "
        "at once. Write: prefill pushes it layer by layer; a lost prefill is seen only at the "
        "router's request timeout."
    )
    backend: Backend = Field(
        default=Backend.RDMA,
        description="RDMA: over the fabric. XGMI: between GPUs of one node, where all engines then "
        "run; needs the host network, and shares the node's IPC and PID namespaces.",
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


class Expert(StrEnum):
    """Whether a mixture of experts is spread by whole experts."""

    ENABLED = "Enabled"
    DISABLED = "Disabled"


class Parallelism(ApiModel):
    """How one engine is spread over the GPUs of its node; each rank has ports of its own."""

    model_config = with_rules(ONE_DIMENSION_RULE)

    tensor: int = Field(
        default=1, ge=1, le=16, description="Tensor parallel size; one pod holds all ranks."
    )
    data_local: int = Field(
        default=1,
        ge=1,
        le=16,
        description="Data parallel size; one pod holds all ranks. For MoE models only: a dense "
        "model is scaled by replicas.",
    )
    expert: Expert = Field(
        default=Expert.DISABLED,
        description="Enabled: the ranks of an engine share out whole experts "
        "(--enable-expert-parallel). For MoE models only.",
    )

    @property
    def ranks(self) -> int:
        """Number of ranks, each with a handshake and a notify port."""
        return self.tensor * self.data_local


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

    @property
    def template_spec(self) -> dict[str, Any]:
        """The pod spec in the template, of any shape inside; empty where there is none."""
        inner = (self.pod_template or {}).get("spec")
        return inner if isinstance(inner, dict) else {}

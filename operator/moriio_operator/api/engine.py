"""Models of what an engine is created from: image, connector, and the role with its devices."""

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
    # The default of the object itself, `{}`, is validated before its fields get their defaults.
    "!has(self.tensor) || !has(self.dataLocal) || self.tensor == 1 || self.dataLocal == 1",
    "parallelism: tensor and dataLocal must not both be larger than 1, since vLLM binds the port "
    "of a rank at base + data rank + tensor rank, so two ranks would bind the same port and hang: "
    "use tensor alone, or dataLocal alone and more replicas",
)


class PullSecret(ApiModel):
    """A reference to an image pull secret in the same namespace."""

    name: ObjectName = Field(description="Name of the Secret.")


class Engine(ApiModel):
    """The container image of both prefill and decode."""

    image: Text1024 = Field(
        description="Image whose entry point is `vllm serve`, such as vllm/vllm-openai-rocm."
    )
    version: (
        Annotated[str, StringConstraints(max_length=64, pattern=r"^v?[0-9]+\.[0-9]+(\.[0-9]+)?$")]
        | None
    ) = Field(
        default=None,
        description="Version of vLLM in the image, such as 0.33.0, which selects the compatibility "
        "rules. Defaults to the version in the image tag, if the image is named after vllm. "
        "Changing it creates a new revision: engines are replaced, with downtime.",
    )
    image_pull_secrets: list[PullSecret] = Field(
        default_factory=list,
        max_length=8,
        description="Secrets for pulling the engine and router images.",
        json_schema_extra=list_map("name"),
    )
    api_key_secret_key_ref: SecretKeyRef | None = Field(
        default=None,
        description="An API key that engines require and that the routers send. It closes the "
        "engines to other callers, not the routers to clients. Changing the reference creates a "
        "new revision: engines are replaced, with downtime. The Secret's own value must not change "
        "while engines use it: to rotate the key, create another Secret and refer to that.",
    )

    @property
    def declared_version(self) -> Version | None:
        """The version of vLLM that the resource declares, if it does."""
        return versions.declared(self.image, self.version)

    @property
    def ruling_version(self) -> Version:
        """The version of vLLM whose rules apply."""
        return versions.ruling(self.declared_version)


class Connector(ApiModel):
    """Settings of vLLM's MoRIIOConnector; each is passed explicitly, none is left to a default."""

    # Any text is read: an unknown type is a problem to report, not a crash.
    type: str = Field(
        default=ConnectorType.MORIIO.value,
        description="What carries the KV cache. MoRIIO: vLLM's MoRIIOConnector.",
        json_schema_extra={"enum": [known.value for known in ConnectorType]},
    )
    mode: Mode = Field(
        description="Read: decode fetches the KV cache after prefill has answered; failures are "
        "noticed at once. Write: prefill pushes it layer by layer; a lost prefill engine is "
        "noticed only at the router's request timeout."
    )
    backend: Backend = Field(
        default=Backend.RDMA,
        description="RDMA: over the fabric. XGMI: between the GPUs of one node, on which all "
        "engines then run; needs the host network, and shares the node's IPC and PID namespaces.",
    )
    qp_per_transfer: int = Field(
        default=1, ge=1, le=64, description="RDMA queue pairs per transfer (qp_per_transfer)."
    )
    post_batch_size: int = Field(
        default=-1,
        ge=-1,
        le=65_536,
        description="Work requests posted per batch; -1 leaves it to MORI (post_batch_size).",
    )
    workers: int = Field(
        default=1, ge=1, le=64, description="Number of threads that post transfers (num_workers)."
    )
    transfer_timeout_seconds: Seconds = Field(
        default=30, description="How long one transfer may take (transfer_timeout)."
    )
    defer_timeout_seconds: Seconds = Field(
        default=60,
        description="How long prefill keeps KV blocks that decode has not fetched (defer_timeout).",
    )
    receive_abort_timeout_seconds: Seconds = Field(
        default=120,
        description="How long decode waits for a read before it gives up (recv_abort_timeout).",
    )


class Expert(StrEnum):
    """Whether the ranks of a mixture of experts hold whole experts."""

    ENABLED = "Enabled"
    DISABLED = "Disabled"


class Parallelism(ApiModel):
    """How one engine is spread over the GPUs of its node; each rank has its own ports."""

    model_config = with_rules(ONE_DIMENSION_RULE)

    tensor: int = Field(
        default=1, ge=1, le=16, description="Tensor parallel size; one pod runs all ranks."
    )
    data_local: int = Field(
        default=1,
        ge=1,
        le=16,
        description="Data parallel size; one pod runs all ranks. For MoE models only: scale a "
        "dense model with replicas.",
    )
    expert: Expert = Field(
        default=Expert.DISABLED,
        description="Enabled: whole experts are distributed over the ranks of an engine "
        "(--enable-expert-parallel). For MoE models only.",
    )

    @property
    def ranks(self) -> int:
        """Number of ranks, each with a handshake and a notify port."""
        return self.tensor * self.data_local


class Gpu(ApiModel):
    """GPUs of an engine: requested from a device plugin, or named."""

    model_config = with_rules(
        rule(
            "has(self.resourceName) == has(self.count)",
            "devices.gpu: give resourceName and count together, or neither",
        )
    )

    resource_name: ResourceName | None = Field(
        default=None, description="Extended resource of the device plugin, such as amd.com/gpu."
    )
    count: int | None = Field(default=None, ge=1, le=64, description="Number of GPUs.")
    visible_devices: (
        Annotated[str, StringConstraints(max_length=256, pattern=r"^[0-9]+(,[0-9]+)*$")] | None
    ) = Field(
        default=None,
        description="Indices for both HIP_VISIBLE_DEVICES and CUDA_VISIBLE_DEVICES, such as 0,1. A "
        "privileged pod sees every GPU of its node: name the GPUs, or use the whole node.",
    )


class Rdma(ApiModel):
    """RDMA devices of an engine, requested from a device plugin."""

    resource_name: ResourceName = Field(
        description="Extended resource of the device plugin, such as rdma/hca."
    )
    count: int = Field(default=1, ge=1, le=64, description="Number of RDMA devices.")


class RoleDevices(ApiModel):
    """The devices that each engine of a role requests."""

    gpu: Gpu | None = Field(default=None, description="GPUs of each engine.")
    rdma: Rdma | None = Field(default=None, description="RDMA devices of each engine.")


class Resources(ApiModel):
    """Resource requests and limits of a container."""

    requests: dict[str, Quantity] | None = Field(
        default=None, max_length=16, description="Minimum resources (requests), by resource name."
    )
    limits: dict[str, Quantity] | None = Field(
        default=None, max_length=16, description="Resource limits, by resource name."
    )


class EnvVar(ApiModel):
    """An environment variable with a plain value; use the pod template for references."""

    name: Annotated[
        str, StringConstraints(min_length=1, max_length=253, pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$")
    ] = Field(description="Name of the environment variable.")
    value: Annotated[str, StringConstraints(max_length=4096)] = Field(
        default="", description="Value of the environment variable."
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
        description="Additional `vllm serve` arguments, one per list item.",
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
        description="How long an engine may take from its start until it is first healthy.",
    )
    devices: RoleDevices = Field(
        default=RoleDevices(), description="Devices that each engine requests."
    )
    pod_template: dict[str, Any] | None = Field(
        default=None,
        description="A partial PodTemplateSpec that is merged into the engine pods by strategic "
        "merge: labels, annotations, scheduling, volumes, sidecars, and env, volumeMounts and "
        "resources of the container `engine`. Fields that the operator owns are refused, with "
        "their path.",
        json_schema_extra=free_object,
    )

    @property
    def template_spec(self) -> dict[str, Any]:
        """The pod spec in the template, of any shape inside; empty where there is none."""
        inner = (self.pod_template or {}).get("spec")
        return inner if isinstance(inner, dict) else {}

"""The `PDDeployment` itself: its spec, with the rules that one object alone can decide."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import Field

from moriio_operator.api import names
from moriio_operator.api.engine import Connector, Engine, EngineRole, Resources
from moriio_operator.api.model import Model
from moriio_operator.api.network import Network
from moriio_operator.api.schema import ApiModel, Seconds, Text1024, rule, with_rules
from moriio_operator.api.status import Status
from moriio_operator.facts.terms import ROLES, Role

NAME_RULE = rule(
    f"self.metadata.name.size() <= {names.NAME_MAX_LENGTH} "
    "&& self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
    f"metadata.name must be at most {names.NAME_MAX_LENGTH} characters, begin with a letter and "
    "contain only a-z, 0-9 and '-', so that the names of its Services and pods are valid: choose "
    "another name",
)
ROCE_RULE = rule(
    "self.devices.fabric != 'RoCE' || self.network.mode == 'Host'",
    "spec.devices.fabric: RoCE needs the host's network interfaces, which the pod network does "
    "not provide: set spec.network.mode to Host, or use InfiniBand",
    ".devices.fabric",
)

# Kubernetes gives every pod environment variables for each Service of its namespace. A Service
# `vllm` becomes VLLM_PORT=tcp://..., which vLLM (0.20 to 0.33, `envs.py`) parses as a number and
# crashes on. Our pods set enableServiceLinks to false; the user's own vLLM pods may not.
SERVICE_NAME_RULE = {
    **rule(
        # An existing object stays valid: if it were refused, not even its status could be written.
        f"oldSelf.hasValue() || !(self.metadata.name in {list(names.VLLM_SERVICES)})",
        "metadata.name must not be one of " + ", ".join(names.VLLM_SERVICES) + ": its Service "
        "would inject a port variable into other vLLM pods in the namespace, which makes vLLM "
        "exit: choose another name",
    ),
    "optionalOldSelf": True,
}
XGMI_RULE = rule(
    "self.connector.backend != 'XGMI' || self.network.mode == 'Host'",
    "spec.connector.backend: XGMI shares GPU memory between processes, which needs the host's "
    "namespaces: set spec.network.mode to Host, or use RDMA",
    ".connector.backend",
)
# Written out: in CEL the two roles have different types.
_DENSE_ROLES = " && ".join(f"self.{role}.parallelism.dataLocal == 1" for role in ROLES)
DENSE_RULE = rule(
    "(self.model.config.?architecture.orValue('') != 'Dense' "
    "&& self.model.?facts.architecture.orValue('') != 'Dense') || "
    f"({_DENSE_ROLES})",
    "parallelism.dataLocal: must be 1 for a dense model, since vLLM starts every rank of one as "
    "rank 0, so all ranks bind the same ports: use spec.prefill.replicas and spec.decode.replicas",
)
TOKEN_RULE = rule(
    # Written out: in CEL the two roles have different types, and no list may hold both.
    "!has(self.model.tokenSecretKeyRef) || !("
    + " || ".join(
        f"has(self.{role}.env) && self.{role}.env.exists(e, e.name == '{names.HUB_TOKEN}')"
        for role in ROLES
    )
    + ")",
    f"env must not hold {names.HUB_TOKEN} in addition to spec.model.tokenSecretKeyRef: remove one "
    "of them",
    ".model.tokenSecretKeyRef",
)


class Profile(StrEnum):
    """How an engine container reaches the devices."""

    PRIVILEGED = "Privileged"


class Fabric(StrEnum):
    """The RDMA fabric between the nodes."""

    ROCE = "RoCE"
    INFINIBAND = "InfiniBand"


class RouterPolicy(StrEnum):
    """How the router picks an engine."""

    CACHE_AWARE = "CacheAware"
    CONSISTENT_HASH = "ConsistentHash"
    POWER_OF_TWO = "PowerOfTwo"
    RANDOM = "Random"
    ROUND_ROBIN = "RoundRobin"


class Devices(ApiModel):
    """How engines reach GPUs and the RDMA fabric."""

    profile: Profile = Field(
        default=Profile.PRIVILEGED,
        description="Privileged: the container is privileged and sees all devices of its node; "
        "the chart value policy.privilegedNamespaces must contain the namespace.",
    )
    fabric: Fabric = Field(
        description="InfiniBand works on the pod network; RoCE needs the host network."
    )


class Router(ApiModel):
    """The vllm-router pods, which receive the requests of clients."""

    replicas: int = Field(default=1, ge=1, le=64, description="Number of router pods.")
    image: Text1024 = Field(
        description="Image whose entry point is vllm-router, such as vllm/vllm-router."
    )
    policy: RouterPolicy = Field(
        default=RouterPolicy.CACHE_AWARE, description="How the router picks an engine."
    )
    request_timeout_seconds: Seconds = Field(
        default=1800,
        description="Maximum duration of a request, including its whole stream. In Write mode it "
        "is also how long a client waits when its prefill engine dies.",
    )
    resources: Resources | None = Field(
        default=None, description="Requests and limits of the router container."
    )


class Rollout(ApiModel):
    """How engines are stopped and replaced."""

    drain_timeout_seconds: Seconds = Field(
        default=60,
        description="How long a terminating engine may take to finish its requests "
        "(--shutdown-timeout).",
    )


class Spec(ApiModel):
    """The desired state: one model, served by prefill and decode engines behind routers."""

    model_config = with_rules(ROCE_RULE, XGMI_RULE, DENSE_RULE, TOKEN_RULE)

    model: Model = Field(description="The model that all engines serve.")
    engine: Engine = Field(description="The container image of both prefill and decode.")
    connector: Connector = Field(description="Settings of vLLM's MoRIIOConnector.")
    prefill: EngineRole = Field(description="Engines that compute the KV cache of a prompt.")
    decode: EngineRole = Field(description="Engines that produce the tokens.")
    devices: Devices = Field(description="How engines reach GPUs and the RDMA fabric.")
    router: Router = Field(
        description="The vllm-router pods, which receive the requests of clients."
    )
    network: Network = Field(description="The network of the engines and their ports.")
    rollout: Rollout = Field(default=Rollout(), description="How engines are stopped and replaced.")

    def role(self, role: Role) -> EngineRole:
        """Give the engines of a role."""
        return self.prefill if role is Role.PREFILL else self.decode


class PDDeployment(ApiModel):
    """A prefill/decode-disaggregated vLLM service over the MoRIIO KV connector."""

    model_config = with_rules(NAME_RULE, SERVICE_NAME_RULE)

    spec: Spec = Field(description="The desired state.")
    status: Status | None = Field(
        default=None, description="The observed state, written by the operator only."
    )


class Owner(ApiModel):
    """A PDDeployment with its identity: the input of planners and builders.

    `metadata` is not in the schema (the API server owns it), so its fields are next to the spec.
    """

    name: str
    namespace: str
    uid: str
    generation: int
    spec: Spec

    @property
    def key(self) -> str:
        """Namespace and name, as written in logs."""
        return f"{self.namespace}/{self.name}"

    @classmethod
    def from_object(cls, obj: dict[str, Any]) -> Owner:
        """Read a live object.

        Raises:
            pydantic.ValidationError: the object does not have this schema's shape, which happens
                when it was stored under another version of the CRD.
        """
        metadata = obj["metadata"]
        return cls(
            name=metadata["name"],
            namespace=metadata["namespace"],
            uid=metadata["uid"],
            generation=metadata["generation"],
            spec=Spec.model_validate(obj["spec"]),
        )

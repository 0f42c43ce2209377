"""Models of the network of the engines, and of their ports on it."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from moriio_operator.api.schema import ApiModel, rule, with_rules

# Ports of a node that are reserved for other components, lowest first: first, last, whose.
# Sources: the ports of Kubernetes' components and its default NodePort range (kubernetes.io, Ports
# and Protocols), ip_local_port_range of the Linux kernel, Antrea's NodePortLocal.
RESERVED_PORTS = (
    (2379, 2381, "etcd"),
    (6443, 6443, "the API server"),
    (10_248, 10_259, "Kubernetes' components"),
    (30_000, 32_767, "NodePort Services"),
    (32_768, 60_999, "outgoing connections"),
    (61_000, 62_000, "NodePortLocal"),
)
LOWEST_PORT, HIGHEST_PORT = 1024, 65_535

_FREE = " && ".join(
    f"(self.end < {first} || self.start > {last})" for first, last, _ in RESERVED_PORTS
)
_TAKEN = ", ".join(
    f"{first}-{last} ({whose})" if first != last else f"{first} ({whose})"
    for first, last, whose in RESERVED_PORTS
)
ORDER_RULE = rule(
    "self.start <= self.end",
    "spec.network.portRange: start must not be larger than end",
    ".start",
)
RESERVED_RULE = rule(
    _FREE,
    f"spec.network.portRange: must not overlap ports reserved for other components: {_TAKEN}; use "
    "ports within 20000-29999",
)


class NetworkMode(StrEnum):
    """The network that engine pods use."""

    HOST = "Host"
    POD = "Pod"


class Ports(ApiModel):
    """A range of ports, including both ends."""

    model_config = with_rules(ORDER_RULE, RESERVED_RULE)

    start: int = Field(ge=LOWEST_PORT, le=HIGHEST_PORT, description="First port.")
    end: int = Field(ge=LOWEST_PORT, le=HIGHEST_PORT, description="Last port.")


class Network(ApiModel):
    """The network of the engines and their ports."""

    mode: NetworkMode = Field(
        description="Pod: the cluster's pod network. Host: the node's network, which RoCE needs; "
        "the chart value policy.hostNetworkNamespaces must contain the namespace."
    )
    port_range: Ports | None = Field(
        default=None,
        description="Ports that this deployment's engines may use: a part of the operator's range "
        "(chart value ports). Defaults to all of it. A change applies to engines that are created "
        "later.",
    )

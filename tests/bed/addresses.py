"""Names and addresses of the bed, all within 198.18.0.0/15.

That range is set aside for benchmarks, so it meets no real network. Each node has an address on the
bed's bridge and a range for its pods; the control plane and the DNS listen on the bridge itself.
"""

from __future__ import annotations

from dataclasses import dataclass

BRIDGE = "mbed-bridge"
LINK_PREFIX = "mbed-"
CGROUP_PREFIX = "moriio-bed-"
BED_NETWORK = "198.18.0.0/15"
POD_NETWORK = "198.18.0.0/16"
BRIDGE_IP = "198.18.0.1"
BRIDGE_PREFIX_LENGTH = 24
SERVICE_NETWORK = "198.19.0.0/16"
# Behind these addresses nobody is.
PLAYED_NODE_IP = "198.18.0.250"
PLAYED_POD_NETWORK = "198.18.128.0/17"
API_SERVICE_IP = "198.19.0.1"
DNS_SERVICE_IP = "198.19.0.10"
API_PORT = 6443
KUBELET_PORT = 10250
# Not 53: a resolver of the host may hold that on every address.
DNS_PORT = 1053
DNS_READY_PORT = 8181
ETCD_CLIENT_PORT = 12379
ETCD_PEER_PORT = 12380

_FIRST_HOST_NUMBER = 11


@dataclass(frozen=True, slots=True)
class NodeAddress:
    """What a node is called and where it and its pods are."""

    index: int

    @property
    def name(self) -> str:
        """The name of the Node object."""
        return f"node{self.index}"

    @property
    def ip(self) -> str:
        """The node's address on the bridge."""
        return f"198.18.0.{_FIRST_HOST_NUMBER + self.index}"

    @property
    def pod_network(self) -> str:
        """The range that the node's pods have their addresses from."""
        return f"198.18.{_FIRST_HOST_NUMBER + self.index}.0/24"

    @property
    def link(self) -> str:
        """The host's end of the cable between the bridge and the node."""
        return f"{LINK_PREFIX}{self.name}"

    @property
    def cgroup(self) -> str:
        """The cgroup, in every hierarchy, that the node's pods live in."""
        return f"{CGROUP_PREFIX}{self.name}"


def node_addresses(count: int) -> list[NodeAddress]:
    """Return the addresses of a bed with `count` nodes."""
    return [NodeAddress(index) for index in range(count)]

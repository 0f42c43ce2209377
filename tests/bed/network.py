"""The bed's network: one bridge on the host and a cable from it to each node.

A node's namespace has no name, so it ends with the node's processes and takes the cable along.
A node has routes to the bridge, to the other nodes' pods and to the service range, and none
besides: nothing leaves the bed, whether or not the host forwards.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from bed import addresses
from bed.addresses import NodeAddress
from bed.command import run, succeeds, wait_until

# A bridge without an address of its own takes one of its ports', and another when that port goes:
# with every pod or node that ends, all others would lose their way to it until they ask anew.
_BRIDGE_MAC = "02:00:c6:12:00:01"
_POD_BRIDGE = "cni0"

# A node forwards between its pods and its cable. With the bridge's traffic shown to iptables, what
# passes between two pods of a node is policed and translated too.
_SYSCTLS = (
    "net.ipv4.ip_forward=1",
    "net.bridge.bridge-nf-call-iptables=1",
)


def create_bridge() -> None:
    """Make the bridge, with the address that the control plane listens on."""
    bridge = addresses.BRIDGE
    address = f"{addresses.BRIDGE_IP}/{addresses.BRIDGE_PREFIX_LENGTH}"
    # Hosts with modular kernels load it on demand only; without it bridges escape iptables.
    succeeds(["modprobe", "br_netfilter"])
    run(["ip", "link", "add", bridge, "address", _BRIDGE_MAC, "type", "bridge"])
    run(["ip", "addr", "add", address, "dev", bridge])
    run(["ip", "link", "set", bridge, "up"])


def node_routes(node: NodeAddress, peers: Sequence[NodeAddress]) -> list[str]:
    """Return the routes of a node, besides those that come with its addresses."""
    to_peers = [f"{peer.pod_network} via {peer.ip}" for peer in peers if peer != node]
    # Service addresses are rewritten on their way out, but only once a route was found for them.
    # On the link itself: what no service claims is asked for by ARP there, and nobody answers.
    return [*to_peers, f"{addresses.SERVICE_NETWORK} dev eth0"]


def connect(node: NodeAddress, init_pid: int, peers: Sequence[NodeAddress]) -> None:
    """Lay the cable to the node whose first process is `init_pid`, and set its routes."""
    bridge = addresses.BRIDGE
    cable = ["type", "veth", "peer", "name", "eth0", "netns", str(init_pid)]
    run(["ip", "link", "add", node.link, *cable])
    run(["ip", "link", "set", node.link, "master", bridge, "up"])
    commands = [
        "link set lo up",
        f"addr add {node.ip}/{addresses.BRIDGE_PREFIX_LENGTH} dev eth0",
        "link set eth0 up",
        *(f"route add {route}" for route in node_routes(node, peers)),
        # The CNI plugin would make it without an address of its own.
        f"link add {_POD_BRIDGE} address {_BRIDGE_MAC} type bridge",
    ]
    inside = ["nsenter", f"--net=/proc/{init_pid}/ns/net"]
    run([*inside, "ip", "-batch", "-"], stdin="\n".join(commands) + "\n")
    run([*inside, "sysctl", "-q", "-w", *_SYSCTLS])
    # The host itself talks to pods too: the control plane to webhooks, a developer to anything.
    run(["ip", "route", "replace", node.pod_network, "via", node.ip, "dev", bridge])


def links() -> list[str]:
    """Names of the bed's links on the host."""
    found = json.loads(run(["ip", "-json", "link", "show"]))
    names = [str(link["ifname"]) for link in found]
    return [name for name in names if name.startswith(addresses.LINK_PREFIX)]


def remove_all() -> None:
    """Remove the bed's links; the host's routes into the bed go with them."""
    for name in links():
        # A node's cable may go by itself meanwhile: its namespace ends soon after its processes.
        succeeds(["ip", "link", "delete", name])
    wait_until(lambda: not links(), timeout_s=30, what="the bed's links to go")


def host_routes() -> list[str]:
    """The host's routes, one a line."""
    return run(["ip", "route", "show"]).splitlines()

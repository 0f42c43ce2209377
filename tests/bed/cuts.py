"""Cut links: packets that a node drops without a word, as a broken cable or switch would.

What is cut is a table of nftables in the node's network namespace, rendered whole from the list of
cuts. The table is the bed's own, so neither kube-proxy nor the policy engine touches it, and it
stands before connection tracking, so established connections are cut like new ones. The host is no
place for it: traffic between nodes crosses its bridge, which may be out of its firewall's sight.

Between two nodes each end drops what arrives; towards the API server, which is on the host, the
node drops both ways.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bed.addresses import API_PORT, BRIDGE_IP, KUBELET_PORT, NodeAddress

_TABLE = "inet moriio_bed_cuts"


@dataclass(frozen=True, slots=True)
class Link:
    """What is cut: two nodes with their pods, or a node with its pods and the API server."""

    node: NodeAddress
    # The other node, or nothing for the API server.
    peer: NodeAddress | None = None

    def arriving(self, at: NodeAddress) -> list[str]:
        """Return what a node shall drop of that which comes in, as matches of nftables."""
        if self.peer is None:
            # The server's answers, and what it asks of the kubelet for logs and exec.
            ports = (f"sport {API_PORT}", f"dport {KUBELET_PORT}")
            return [f"ip saddr {BRIDGE_IP} tcp {port}" for port in ports] if at == self.node else []
        others = {self.node: self.peer, self.peer: self.node}
        other = others.get(at)
        return [f"ip saddr {{ {other.ip}, {other.pod_network} }}"] if other else []

    def leaving(self, at: NodeAddress) -> list[str]:
        """Return what a node shall drop of that which goes out, as matches of nftables."""
        if self.peer is not None or at != self.node:
            return []
        # Also what was sent to the Service's address, which is rewritten before this.
        ports = (f"dport {API_PORT}", f"sport {KUBELET_PORT}")
        return [f"ip daddr {BRIDGE_IP} tcp {port}" for port in ports]


def ruleset(at: NodeAddress, links: Iterable[Link]) -> str:
    """Return the text for `nft -f` that leaves a node with these cuts and no others, at one go."""
    cut = list(links)
    incoming = [f'iifname "eth0" {match} drop' for link in cut for match in link.arriving(at)]
    outgoing = [f'oifname "eth0" {match} drop' for link in cut for match in link.leaving(at)]
    # A table must be there to be deleted, and adding one that is there changes nothing.
    lines = [f"add table {_TABLE}", f"delete table {_TABLE}"]
    if incoming or outgoing:
        chains = [*_chain("arriving", "prerouting", incoming)]
        chains += _chain("leaving", "postrouting", outgoing)
        lines += [f"table {_TABLE} {{", *chains, "}"]
    return "\n".join(lines) + "\n"


def _chain(name: str, hook: str, rules: Sequence[str]) -> list[str]:
    # The priority is before raw's, where connection tracking may be switched off.
    head = f"type filter hook {hook} priority -310; policy accept;"
    return [f"chain {name} {{", head, *rules, "}"]

"""Cluster DNS: CoreDNS on the bridge, with a Service of the usual address before it.

It runs on the host, so that no node's death takes the names away from the others. The Service has
no selector; its one endpoint is written by hand.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from bed import addresses
from bed.command import Argv

_PORTS = (("dns", "UDP"), ("dns-tcp", "TCP"))


def corefile(kubeconfig: Path) -> str:
    """Return CoreDNS's configuration. Names outside the cluster have no answer in the bed."""
    return f"""\
.:{addresses.DNS_PORT} {{
    bind {addresses.BRIDGE_IP}
    errors
    ready {addresses.BRIDGE_IP}:{addresses.DNS_READY_PORT}
    kubernetes cluster.local {{
        kubeconfig {kubeconfig}
        ttl 1
    }}
    cache 2
}}
"""


def command(binaries: Path, configuration: Path) -> Argv:
    """Return the command of CoreDNS."""
    return [binaries / "coredns", "-conf", configuration]


def objects() -> list[dict[str, Any]]:
    """Return the Service that pods ask, and its endpoint."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kube-dns", "namespace": "kube-system"},
        "spec": {
            "clusterIP": addresses.DNS_SERVICE_IP,
            "ports": [{"name": name, "port": 53, "protocol": proto} for name, proto in _PORTS],
        },
    }
    endpoints = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "kube-dns-bed",
            "namespace": "kube-system",
            "labels": {"kubernetes.io/service-name": "kube-dns"},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [addresses.BRIDGE_IP]}],
        "ports": [
            {"name": name, "port": addresses.DNS_PORT, "protocol": proto} for name, proto in _PORTS
        ],
    }
    return [service, endpoints]


def ready() -> bool:
    """Whether CoreDNS has read the cluster's services and answers."""
    url = f"http://{addresses.BRIDGE_IP}:{addresses.DNS_READY_PORT}/ready"
    try:
        with urlopen(url, timeout=1) as response:
            return int(response.status) == 200
    except (URLError, OSError):
        return False

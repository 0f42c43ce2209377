"""Configuration of the programs of a node, as text: containerd, CNI, kubelet and kube-proxy.

JSON where the program takes YAML. Paths that a program would choose itself are set wherever the
node's own folders (`nodespace.py`) do not cover them, so that nothing is written to the host.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bed import addresses
from bed.addresses import NodeAddress

CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
PAUSE_REFERENCE = "localhost/moriio/pause:1"
CNI_PROGRAMS = "/usr/lib/cni"
_HEARTBEAT_S = 2
_LEASE_S = 8  # a kubelet renews at a quarter of this


def containerd(root: Path, settings: Path) -> str:
    """Return containerd's configuration."""
    return f"""\
version = 2
root = "{root}"
state = "/run/containerd"

[grpc]
  address = "{CONTAINERD_SOCKET}"

[plugins."io.containerd.internal.v1.opt"]
  path = "{settings}/opt"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_REFERENCE}"
  disable_apparmor = true
  disable_tcp_service = true
  # Where the host lacks CAP_SYS_RESOURCE runc may not lower a score below its own, and fails with
  # no more than "can't get final child's PID from pipe: EOF".
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{CNI_PROGRAMS}"
    conf_dir = "{settings}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
"""


def cni(node: NodeAddress) -> str:
    """Return the pod network of a node: a bridge in it, with addresses from the node's range."""
    ipam = {
        "type": "host-local",
        # In memory: after a crash of the node its pods are gone, and so are their leases.
        "dataDir": "/run/cni-leases",
        "ranges": [[{"subnet": node.pod_network}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": ipam,
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return json.dumps({"cniVersion": "1.0.0", "name": "bed", "plugins": [bridge, ports]})


def kubelet(node: NodeAddress, pki: Path, settings: Path) -> str:
    """Return the kubelet's configuration."""
    # The host's disk and memory are shared by all nodes; a kubelet that evicts because some other
    # program fills them would fail tests at random.
    evict_at = {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"}
    config: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": node.ip,
        "tlsCertFile": str(pki / f"{node.name}.crt"),
        "tlsPrivateKeyFile": str(pki / f"{node.name}.key"),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{node.cgroup}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": ["pods"],
        "evictionHard": evict_at,
        "imageGCHighThresholdPercent": 100,
        "clusterDNS": [addresses.DNS_SERVICE_IP],
        "clusterDomain": "cluster.local",
        "resolvConf": str(settings / "resolv.conf"),
        "volumePluginDir": str(settings / "volume-plugins"),
        "maxPods": 110,
        "nodeStatusUpdateFrequency": f"{_HEARTBEAT_S}s",
        "nodeLeaseDurationSeconds": _LEASE_S,
        "serializeImagePulls": False,
        "registryPullQPS": 0,
        "eventRecordQPS": 0,
        "kubeAPIQPS": 100,
        "kubeAPIBurst": 200,
    }
    return json.dumps(config, indent=1)


def kube_proxy(node: NodeAddress, kubeconfig: Path) -> str:
    """Return kube-proxy's configuration."""
    # Connection tracking limits belong to the host and may not be set from a namespace: zero means
    # leave them as they are.
    conntrack = {
        "maxPerCore": 0,
        "min": 0,
        "tcpEstablishedTimeout": "0s",
        "tcpCloseWaitTimeout": "0s",
    }
    config = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "mode": "iptables",
        "clusterCIDR": addresses.POD_NETWORK,
        "hostnameOverride": node.name,
        "conntrack": conntrack,
        # Changes of endpoints reach the rules at once instead of once a second.
        "iptables": {"minSyncPeriod": "100ms"},
    }
    return json.dumps(config, indent=1)

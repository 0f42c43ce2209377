"""Played nodes: Node objects behind which kwok plays the kubelet, by the hundred if need be.

A pod on one of them is Running and Ready after a moment, and goes at once when it is deleted;
nothing runs, so it costs the cluster's control plane what a real one does and the machine nothing.
Played nodes have a label, and a taint that keeps everybody off who does not ask for them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bed import addresses
from bed.command import Argv

LABEL = {"type": "played"}
SELECTOR = ",".join(f"{key}={value}" for key, value in LABEL.items())
_TAINT = {"key": "moriio.dev/played", "value": "true", "effect": "NoSchedule"}
# What a pod's spec holds to be on played nodes, and on no others.
PLACEMENT: dict[str, Any] = {
    "nodeSelector": LABEL,
    "tolerations": [{"key": _TAINT["key"], "operator": "Exists"}],
}
_CAPACITY = {"cpu": "256", "memory": "2Ti", "pods": "500", "ephemeral-storage": "10Ti"}
# Well below the silence after which the control plane gives a node up.
_LEASE_S = 20
_START_MS = 300
_START_JITTER_MS = 600  # the upper bound of the delay, as kwok counts it

_NODE_STATUS = f"""\
{{{{ $now := Now }}}}
addresses:
- type: InternalIP
  address: {addresses.PLAYED_NODE_IP}
capacity: {json.dumps(_CAPACITY)}
allocatable: {json.dumps(_CAPACITY)}
nodeInfo:
  operatingSystem: linux
  architecture: amd64
conditions:
- type: Ready
  status: "True"
  reason: Played
  message: nothing runs here
  lastHeartbeatTime: {{{{ $now | Quote }}}}
  lastTransitionTime: {{{{ $now | Quote }}}}
"""

# A native sidecar is an init container that goes on; any other has ended well by now.
_POD_STATUS = """\
{{ $now := Now }}
phase: Running
startTime: {{ $now | Quote }}
hostIP: {{ NodeIPWith .spec.nodeName | Quote }}
{{ $uid := .metadata.uid }}
{{ $host := or .spec.hostNetwork false }}
{{ $own := PodIPWith .spec.nodeName $host $uid .metadata.name .metadata.namespace }}
podIP: {{ $own | Quote }}
podIPs:
- ip: {{ $own | Quote }}
conditions:
{{ range $type := list "Initialized" "ContainersReady" "Ready" }}
- type: {{ $type }}
  status: "True"
  lastTransitionTime: {{ $now | Quote }}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  restartCount: 0
  ready: true
  started: true
  state:
    running:
      startedAt: {{ $now | Quote }}
{{ end }}
{{ if .spec.initContainers }}
initContainerStatuses:
{{ range .spec.initContainers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  restartCount: 0
  ready: true
{{ if eq (or .restartPolicy "") "Always" }}
  started: true
  state:
    running:
      startedAt: {{ $now | Quote }}
{{ else }}
  started: false
  state:
    terminated:
      exitCode: 0
      reason: Completed
      startedAt: {{ $now | Quote }}
      finishedAt: {{ $now | Quote }}
{{ end }}
{{ end }}
{{ end }}
"""


def _stage(name: str, kind: str, when: list[dict[str, Any]], **then: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": kind},
            "selector": {"matchExpressions": when},
            **then,
        },
    }


def configuration() -> str:
    """Return kwok's configuration: how fast it works, and the stages of a node's and pod's life."""
    lives = {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"}
    leaves = {"key": ".metadata.deletionTimestamp", "operator": "Exists"}
    pending = {"key": ".status.phase", "operator": "In", "values": ["Pending"]}
    ready = '.status.conditions.[] | select( .type == "Ready" ) | .status'
    unready = {"key": ready, "operator": "NotIn", "values": ["True"]}
    delay = {"durationMilliseconds": _START_MS, "jitterDurationMilliseconds": _START_JITTER_MS}
    documents = [
        {
            "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
            "kind": "KwokConfiguration",
            "options": {
                "cidr": addresses.PLAYED_POD_NETWORK,
                "nodeIP": addresses.PLAYED_NODE_IP,
                "manageNodesWithLabelSelector": SELECTOR,
                "nodeLeaseDurationSeconds": _LEASE_S,
                "podPlayStageParallelism": 16,
                "nodePlayStageParallelism": 4,
                "nodeLeaseParallelism": 4,
                "podsOnNodeSyncParallelism": 4,
            },
        },
        _stage("node-ready", "Node", [unready], next={"statusTemplate": _NODE_STATUS}),
        _stage(
            "pod-ready", "Pod", [lives, pending], delay=delay, next={"statusTemplate": _POD_STATUS}
        ),
        _stage("pod-gone", "Pod", [leaves], next={"delete": True}),
    ]
    return "\n---\n".join(json.dumps(document, indent=1) for document in documents)


def command(kwok: Path, configured: Path, kubeconfig: Path) -> Argv:
    """Return the command of kwok."""
    return [kwok, f"--config={configured}", f"--kubeconfig={kubeconfig}"]


def nodes(count: int, *, closed: bool) -> list[dict[str, Any]]:
    """Return the Node objects; closed ones take only pods that tolerate their taint."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": f"played-{index}",
                "labels": {**LABEL, "kubernetes.io/hostname": f"played-{index}"},
            },
            "spec": {"taints": [_TAINT]} if closed else {},
        }
        for index in range(count)
    ]

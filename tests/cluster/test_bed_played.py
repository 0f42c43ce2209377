"""Played nodes: pods that ask for them are Ready at once, and nobody else lands there."""

import json
from typing import Any

import pytest
from bed import played
from bed.claim import state_folder
from bed.cluster import Bed
from bed.command import wait_until
from bed.controlplane import NODE_SILENCE_S
from bed.processes import members_named

pytestmark = pytest.mark.alone

READY_S = 10
# What a real pod may take on a busy machine.
STARTED_S = 60


def pod(name: str, **placement: Any) -> dict[str, Any]:
    image = {"image": "localhost/moriio/base:dev", "imagePullPolicy": "Never"}
    sidecar = {"name": "beside", "restartPolicy": "Always", **image, "command": ["sleep", "60"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "initContainers": [sidecar],
            "containers": [{"name": "main", **image, "command": ["sleep", "60"]}],
            **placement,
        },
    }


def test_only_who_asks_is_played_and_nothing_stays(bed: Bed, namespace: str) -> None:
    in_namespace = ("-n", namespace)
    pods = [pod("asks", **played.PLACEMENT), pod("does-not")]
    with bed.play_nodes(3):
        listed = {"apiVersion": "v1", "kind": "List", "items": pods}
        bed.kubectl(*in_namespace, "apply", "-f", "-", input=json.dumps(listed))
        for name, timeout_s in (("asks", READY_S), ("does-not", STARTED_S)):
            ready = ("wait", "--for=condition=Ready", f"pod/{name}", f"--timeout={timeout_s}s")
            bed.kubectl(*in_namespace, *ready)
        found = {
            p["metadata"]["name"]: p
            for p in bed.kubectl_json(*in_namespace, "get", "pods")["items"]
        }
        assert found["asks"]["spec"]["nodeName"] in {"played-0", "played-1", "played-2"}
        assert found["asks"]["status"]["podIP"].startswith("198.18.")
        assert found["does-not"]["spec"]["nodeName"] in bed.node_names
        bed.kubectl(*in_namespace, "delete", "pod", "asks", "--wait", f"--timeout={READY_S}s")
    assert not members_named(state_folder(), "kwok")
    names = [node["metadata"]["name"] for node in bed.kubectl_json("get", "nodes")["items"]]
    assert names == bed.node_names


def test_a_played_node_is_heard_of_again_and_again(bed: Bed) -> None:
    def heard() -> str:
        lease = bed.kubectl_json("-n", "kube-node-lease", "get", "lease", "played-0")
        return str(lease["spec"]["renewTime"])

    with bed.play_nodes(1):
        first = heard()
        what = "the lease to be renewed before the node is given up"
        wait_until(lambda: heard() != first, timeout_s=NODE_SILENCE_S, what=what, every_s=0.5)

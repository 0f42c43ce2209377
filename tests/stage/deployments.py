"""PDDeployments as dictionaries: the tiny model on real engines, and stubs for mere logic."""

from __future__ import annotations

import copy
from typing import Any

import yaml
from bed.cache import REPO

from stage.shape import ROUTER_IMAGE, STUB_IMAGE

DEMO = REPO / "examples/demo.yaml"
# A mixture of experts, where the dense model of the demo is.
EXPERTS = "/models/tiny-experts"

Manifest = dict[str, Any]


def tiny(namespace: str, name: str, mode: str) -> Manifest:
    """Give one prefill and one decode engine of the tiny model, on different nodes."""
    # Through JSON-like copying, so that the roles, an anchor in the file, are two objects.
    made: Manifest = copy.deepcopy(yaml.safe_load(DEMO.read_text()))
    made["metadata"] = {"name": name, "namespace": namespace}
    spec = made["spec"]
    spec["prefill"], spec["decode"] = (copy.deepcopy(spec["prefill"]) for _ in range(2))
    spec["connector"]["mode"] = mode
    spec["router"]["policy"] = "RoundRobin"
    # The prefill engine alone on its node is what makes the cache cross; a second decode engine
    # then finds room beside the first.
    del spec["decode"]["podTemplate"]["spec"]["affinity"]
    affinity = spec["prefill"]["podTemplate"]["spec"]["affinity"]
    terms = affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    terms[0]["labelSelector"]["matchLabels"]["moriio.dev/deployment"] = name
    return made


def experts(namespace: str, name: str, mode: str) -> Manifest:
    """Give engines of two data parallel ranks each, which share out the experts of a tiny model."""
    made = tiny(namespace, name, mode)
    spec = made["spec"]
    spec["model"]["name"], spec["model"]["config"]["architecture"] = EXPERTS, "MoE"
    for role in ("prefill", "decode"):
        spec[role]["parallelism"] = {"dataLocal": 2, "expert": "Enabled"}
        (container,) = spec[role]["podTemplate"]["spec"]["containers"]
        # What vLLM lacks for this on a CPU, see images/engine-cpu.
        container["env"] = [{"name": "VLLM_PLUGINS", "value": "cpu_experts"}]
    return made


def on_host(manifest: Manifest) -> Manifest:
    """Put a PDDeployment on the host network."""
    spec = manifest["spec"]
    spec["network"]["mode"], spec["devices"]["fabric"] = "Host", "RoCE"
    return manifest


def stub(namespace: str, name: str = "stub", *args: str) -> Manifest:
    """Give one prefill and one decode engine that speak only the wire; both take `args`."""
    role = {"args": list(args), "startupTimeoutSeconds": 60}
    return {
        "apiVersion": "moriio.dev/v1alpha1",
        "kind": "PDDeployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "model": {"name": "stub/model", "servedName": "stub"},
            "engine": {"image": STUB_IMAGE},
            "connector": {"mode": "Read"},
            "prefill": role,
            "decode": copy.deepcopy(role),
            "devices": {"fabric": "InfiniBand"},
            "router": {"image": ROUTER_IMAGE, "requestTimeoutSeconds": 5},
            "network": {"mode": "Pod"},
            "rollout": {"drainTimeoutSeconds": 1},
        },
    }

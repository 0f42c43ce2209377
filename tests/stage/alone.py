"""The same model served alone, by one engine without a connector: what tokens ought to be."""

from __future__ import annotations

import json

from bed.cluster import Bed
from bed.command import wait_until
from bed.errors import BedError

from stage.deployments import tiny
from stage.service import READY_S
from stage.traffic import PROMPTS, Answer, complete

_PORT = 8000
_NAME = "alone"


def answers(bed: Bed, namespace: str, model: str = "/models/tiny") -> list[Answer]:
    """Serve a model alone for a while, and give its answers to all prompts."""
    bed.kubectl("apply", "-f", "-", input=json.dumps(_pod(namespace, model)))
    get = ("-n", namespace, "get", "pod", _NAME)

    def ready() -> bool:
        status = bed.kubectl_json(*get)["status"]
        if status["phase"] == "Failed":
            raise BedError(bed.diagnostics(namespace))
        # None before the scheduler has seen it.
        conditions = status.get("conditions", [])
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    wait_until(ready, timeout_s=READY_S, what="the model served alone", every_s=0.5)
    address = f"{bed.kubectl_json(*get)['status']['podIP']}:{_PORT}"
    found = [complete(address, prompt) for prompt in PROMPTS]
    bed.kubectl("-n", namespace, "delete", "pod", _NAME, "--wait=false")
    return found


def _pod(namespace: str, model: str) -> dict[str, object]:
    spec = tiny(namespace, _NAME, "Read")["spec"]
    role = spec["decode"]
    template = role["podTemplate"]["spec"]
    container = template["containers"][0]
    volumes = [
        *template["volumes"],
        {"name": "models", "hostPath": {"path": spec["model"]["cache"]["hostPath"]["path"]}},
        {"name": "shm", "emptyDir": {"medium": "Memory"}},
    ]
    serve = {
        "name": "engine",
        "image": spec["engine"]["image"],
        "args": [
            model, "--served-model-name", spec["model"]["servedName"],
            "--port", str(_PORT), *role["args"],
        ],
        "env": [{"name": "VLLM_HOST_IP", "value": "127.0.0.1"}],
        "volumeMounts": [
            *container["volumeMounts"],
            {"name": "models", "mountPath": "/models"},
            {"name": "shm", "mountPath": "/dev/shm"},
        ],
        "readinessProbe": {"httpGet": {"path": "/health", "port": _PORT}, "periodSeconds": 1},
    }  # fmt: skip
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": _NAME, "namespace": namespace},
        "spec": {
            "restartPolicy": "Never",
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 1,
            "containers": [serve],
            "volumes": volumes,
        },
    }

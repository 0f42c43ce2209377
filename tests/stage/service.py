"""A PDDeployment on a bed as its user sees it: apply, wait, look, and leave."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from bed.cluster import Bed
from bed.command import wait_until
from moriio_operator.api import names
from moriio_operator.api.kinds import PDDEPLOYMENT
from moriio_operator.kube import kinds

from stage.deployments import Manifest

# Engines of the tiny model take 40 s on a quiet machine, and twice that on a busy one.
READY_S = 300


@dataclass(frozen=True, slots=True)
class Service:
    """One PDDeployment."""

    bed: Bed
    namespace: str
    name: str

    @classmethod
    def apply(cls, bed: Bed, manifest: Manifest) -> Service:
        """Apply a manifest, as `kubectl apply` does."""
        bed.kubectl("apply", "-f", "-", input=json.dumps(manifest))
        return cls(bed, manifest["metadata"]["namespace"], manifest["metadata"]["name"])

    def patch(self, **spec: Any) -> None:
        """Merge into the spec."""
        patch = json.dumps({"spec": spec})
        self.bed.kubectl(
            "-n", self.namespace, "patch", "pdd", self.name, "--type=merge", "-p", patch
        )

    def object(self) -> Manifest:
        """Read the object."""
        found: Manifest = self.bed.rest.get(PDDEPLOYMENT.path(self.namespace, self.name))
        return found

    def status(self) -> dict[str, Any]:
        """Read the status; empty before the operator has written one."""
        found: dict[str, Any] = self.object().get("status", {})
        return found

    def reports(self) -> list[dict[str, Any]]:
        """Read the reports of its router pods."""
        label = f"{names.LABEL_DEPLOYMENT}={self.name}"
        found = self.bed.kubectl_json("-n", self.namespace, "get", "pdreports", "-l", label)
        return list(found["items"])

    def condition(self, kind: str) -> dict[str, Any]:
        """Read one condition; empty when it is not there, or speaks of an older spec."""
        found = self.object()
        for condition in found.get("status", {}).get("conditions", []):
            current = condition["observedGeneration"] == found["metadata"]["generation"]
            if condition["type"] == kind and current:
                return dict(condition)
        return {}

    def wait(self, what: str, holds: Callable[[], bool], timeout_s: float = READY_S) -> None:
        """Wait until something holds; a failure shows what the status said last."""
        try:
            wait_until(holds, timeout_s=timeout_s, what=what, every_s=0.5)
        except Exception as error:
            error.add_note(json.dumps(self.status(), indent=1))
            error.add_note(self.bed.diagnostics(self.namespace))
            raise

    def wait_condition(
        self, kind: str, status: str = "True", reason: str | None = None, timeout_s: float = READY_S
    ) -> dict[str, Any]:
        """Wait for a condition of the current spec, and give it."""

        held: dict[str, Any] = {}

        def holds() -> bool:
            found = self.condition(kind)
            # Kept, as it may be gone the next moment.
            held.update(found)
            return found.get("status") == status and reason in (None, found.get("reason"))

        self.wait(f"{self.name}: {kind}={status} {reason or ''}", holds, timeout_s)
        return held

    def wait_settled(self, timeout_s: float = READY_S) -> None:
        """Wait until the service serves and nothing is under way."""
        self.wait_condition("Progressing", "False", "Settled", timeout_s)
        self.wait_condition("Ready", timeout_s=timeout_s)

    def pods(self, role: str | None = None) -> list[dict[str, Any]]:
        """List engine pods, of one role or both; those that end are among them."""
        selector = f"moriio.dev/deployment={self.name},moriio.dev/component=engine"
        if role is not None:
            selector += f",moriio.dev/role={role}"
        return self._pods(selector)

    def _pods(self, selector: str) -> list[dict[str, Any]]:
        path = kinds.POD.path(self.namespace)
        return list(self.bed.rest.get(f"{path}?labelSelector={quote(selector)}")["items"])

    def router_pod(self) -> dict[str, Any]:
        """Give a router pod that is ready and here to stay."""
        selector = f"moriio.dev/deployment={self.name},moriio.dev/component=router"
        staying = [p for p in self._pods(selector) if "deletionTimestamp" not in p["metadata"]]
        for pod in staying:
            for condition in pod["status"].get("conditions", []):
                if condition["type"] == "Ready" and condition["status"] == "True":
                    return dict(pod)
        raise LookupError(f"{self.name} has no router pod that is ready")

    def wait_successor(self, victim: dict[str, Any]) -> None:
        """Wait until its role has engines, and the one that is given is none of them."""
        role = victim["metadata"]["labels"]["moriio.dev/role"]

        def succeeded() -> bool:
            uids = [pod["metadata"]["uid"] for pod in self.pods(role)]
            return bool(uids) and victim["metadata"]["uid"] not in uids

        self.wait("its successor", succeeded, timeout_s=60)

    def delete_and_wait(self) -> None:
        """Delete the object, and wait until its engines are gone."""
        self.delete()
        wait_until(lambda: not self.pods(), timeout_s=120, what="its engines to go", every_s=1)

    def delete(self) -> None:
        """Delete the object, without waiting for its children."""
        self.bed.kubectl("-n", self.namespace, "delete", "pdd", self.name, "--wait=false")


def ports(pod: dict[str, Any]) -> dict[str, int]:
    """Give the ports of an engine by name."""
    return {p["name"]: p["containerPort"] for p in pod["spec"]["containers"][0]["ports"]}


def blocks(pods: list[dict[str, Any]]) -> list[range]:
    """Give the ports of engine pods, as their containers declare them."""
    found = []
    for pod in pods:
        ports = [port["containerPort"] for port in pod["spec"]["containers"][0]["ports"]]
        found.append(range(min(ports), max(ports) + 1))
    return found

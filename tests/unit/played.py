"""The operator's passes played over an API in memory, with kubelets and a user beside it."""

from __future__ import annotations

from datetime import datetime

from moriio_operator.admission.policy import Policy
from moriio_operator.api.ports import PortRange
from moriio_operator.api.status import Condition, Status
from moriio_operator.control.child_cache import ChildCache
from moriio_operator.control.diagnosis import Diagnosis
from moriio_operator.control.queue import Key
from moriio_operator.control.reconcile import Reconciler

from unit.memory_kube import MemoryKube
from unit.samples import INSTALLATION, NOW, POLICY, PORTS, READY, Json, laid_over

KEY = Key("team", "llm")


class Operator:
    """The operator over an API in memory, with a clock of its own."""

    def __init__(
        self,
        kube: MemoryKube,
        policy: Policy = POLICY,
        ports: PortRange = PORTS,
        key: Key = KEY,
    ) -> None:
        self.kube = kube
        self._key = key
        self.time = NOW
        self.installation = INSTALLATION
        self._policy, self._ports = policy, ports
        # What is read beside the passes outlives each of them.
        self._asked_for: list[Key] = []
        self.diagnosis = Diagnosis(kube, self._asked_for.append)

    def now(self) -> datetime:
        return self.time

    async def step(self) -> float | None:
        """One pass, as after a resync: whatever a test did to the world, no event told of it."""
        result = await self.reconciler(ChildCache())(self._key)
        await self.diagnosis.settle()
        if self._asked_for:
            # What was read beside the pass is there, and asks for another one.
            self._asked_for.clear()
            return await self.step()
        return result.again_s

    def reconciler(self, cache: ChildCache) -> Reconciler:
        """What does the passes, with what it knows."""
        return Reconciler(
            self.kube,
            self._policy,
            self.installation,
            self._ports,
            self.now,
            self.diagnosis,
            cache=cache,
        )

    async def settle(self) -> None:
        """Passes, pods that become ready and pods that go, until nothing is written any more."""
        for _ in range(20):
            before = len(self.kube.writes)
            await self.step()
            self.kubelets()
            await self.step()
            if len(self.kube.writes) == before:
                return
        raise AssertionError(f"still writing: {self.kube.writes[-5:]}")

    def kubelets(self) -> None:
        """Every living pod becomes ready, every deleted one goes, every router is there."""
        for pod in self.kube.of_kind("Pod"):
            if pod["metadata"].get("deletionTimestamp"):
                self.kube.remove("Pod", pod["metadata"]["name"])
            elif pod.get("status", {}).get("phase") not in ("Failed", "Running"):
                self.kube.put({**pod, "status": READY})
        for router in self.kube.of_kind("Deployment"):
            count = router["spec"]["replicas"]
            counts = dict.fromkeys(("replicas", "readyReplicas", "updatedReplicas"), count)
            if router.get("status") != counts:
                self.kube.put({**router, "status": counts})

    def change(self, change: Json) -> None:
        """The user applies another spec."""
        live = self.kube.one("PDDeployment", self._key.name)
        generation = live["metadata"]["generation"] + 1
        self.kube.put(laid_over(live, {"spec": change, "metadata": {"generation": generation}}))

    @property
    def status(self) -> Status:
        return Status.from_object(self.kube.one("PDDeployment", self._key.name))

    def condition(self, kind: str) -> Condition:
        return next(c for c in self.status.conditions if c.type == kind)

    def pods(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.kube.of_kind("Pod")]

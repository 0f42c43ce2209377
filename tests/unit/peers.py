"""What engines know of each other: the invariant for which blocks are kept back.

Every engine that serves may have been shown to every other one that lives. It remembers it by its
ports, whatever became of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from moriio_operator.kube.objects import Object


def ports(pod: Object) -> set[int]:
    return {port["containerPort"] for port in pod["spec"]["containers"][0]["ports"]}


def serves(pod: Object) -> bool:
    ready = {"type": "Ready", "status": "True"}
    return ready in (pod.get("status") or {}).get("conditions", [])


@dataclass
class Peers:
    """The engines of one deployment that were ever seen, and what each may know."""

    seen: set[str] = field(default_factory=set)
    known: dict[str, set[int]] = field(default_factory=dict)

    def look(self, pods: Iterable[Object]) -> None:
        """Look at all that are there; one that is new must have ports that nobody knows."""
        there = {pod["metadata"]["uid"]: pod for pod in pods}
        self.known = {uid: self.known.get(uid, set()) for uid in there}
        for uid, pod in there.items():
            if uid not in self.seen:
                self.seen.add(uid)
                assert not any(ports(pod) & known for known in self.known.values())
        for uid, known in self.known.items():
            shown = (ports(pod) for other, pod in there.items() if other != uid and serves(pod))
            known.update(*shown)

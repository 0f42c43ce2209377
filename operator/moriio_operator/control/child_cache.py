"""What is known of children from reading and writing them, so that a pass need not list them all.

Only reads and answers to writes make knowledge; events only put it in doubt, and what is in doubt
is read anew. An event that says what is known already, such as the echo of our own write, is no
news. What an event that was lost would have told is made up for by the resync, which forgets all.
Pods and the PDDeployment itself are not known but read in every pass.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from moriio_operator.control.queue import Key
from moriio_operator.kube.kinds import Kind
from moriio_operator.kube.objects import Object


class Sighting(NamedTuple):
    """A state of an object that an event told of; a deleted one has no version."""

    kind: str
    name: str
    uid: str
    version: str | None


class Knowledge:
    """Children by PDDeployment and kind, without those fields that say who wrote what."""

    def __init__(self) -> None:
        self._owners: dict[Key, str] = {}
        self._known: dict[Key, dict[str, dict[str, Object]]] = {}
        self._heard: defaultdict[Key, dict[tuple[str, str], Sighting]] = defaultdict(dict)

    def hear(self, key: Key, sighting: Sighting) -> bool:
        """Take in an event; tell whether it is news."""
        told = self._heard.get(key, {})
        # What was heard of it before may be of a write whose answer is still under way.
        if self._agrees(key, sighting) and (sighting.kind, sighting.name) not in told:
            return False
        self._heard[key][sighting.kind, sighting.name] = sighting
        return True

    def doubtful(
        self, key: Key, kinds: Iterable[Kind], owner_uid: str
    ) -> tuple[list[Kind], list[Object]]:
        """Give the kinds that must be read, and all children of the others.

        Both at one moment, since the resync may forget everything while the rest is being read.
        Events from now on put in doubt what is read then.
        """
        if self._owners.get(key) != owner_uid:
            self.forget(key)
            self._owners[key] = owner_uid
        heard = self._heard.pop(key, {}).values()
        doubts = {sighting.kind for sighting in heard if not self._agrees(key, sighting)}
        known = self._known.setdefault(key, {})
        unknown = [kind for kind in kinds if kind.kind in doubts or kind.kind not in known]
        sure = known.keys() - {kind.kind for kind in unknown}
        return unknown, [obj for kind in sure for obj in known[kind].values()]

    def learn(self, key: Key, kind: Kind, objects: Iterable[Object]) -> None:
        """Take in all objects of a kind, as they were read."""
        named = {obj["metadata"]["name"]: _lean(obj) for obj in objects}
        self._known.setdefault(key, {})[kind.kind] = named

    def written(self, key: Key, obj: Object) -> None:
        """Take in the answer to a write."""
        of_kind = self._known.get(key, {}).get(obj["kind"])
        if of_kind is not None:
            of_kind[obj["metadata"]["name"]] = _lean(obj)

    def deleted(self, key: Key, obj: Object) -> None:
        """Take in that an object was deleted."""
        self._known.get(key, {}).get(obj["kind"], {}).pop(obj["metadata"]["name"], None)

    def forget(self, key: Key) -> None:
        """Read everything of this PDDeployment anew."""
        for table in (self._known, self._owners, self._heard):
            table.pop(key, None)

    def forget_all(self) -> None:
        """Read everything anew."""
        for key in list(self._owners):
            self.forget(key)

    def _agrees(self, key: Key, sighting: Sighting) -> bool:
        of_kind = self._known.get(key, {}).get(sighting.kind)
        if of_kind is None:
            return False
        known = of_kind.get(sighting.name)
        if known is None or sighting.version is None:
            # A deletion that was ours, or of an object that was made anew since.
            return known is None and sighting.version is None
        metadata = known["metadata"]
        return bool(
            metadata["uid"] == sighting.uid and metadata["resourceVersion"] == sighting.version
        )


def _lean(obj: Object) -> Object:
    metadata = {k: v for k, v in obj["metadata"].items() if k != "managedFields"}
    return {**obj, "metadata": metadata}

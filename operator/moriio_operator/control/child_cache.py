"""Children that are known from reading and writing them, so that a pass need not list them all.

Only reads and answers to writes fill the cache; events only mark a kind as stale, and what is stale
is read anew. Four things can overtake each other:

    an event before the answer to our own write   remembered, and compared when the pass begins
    an event after that answer (its echo)          agrees with the cache: no news
    an event while a kind is being read            remembered: the read may have been before it
    an event that was lost                         made up for by the resync, which compares all

Pods and the PDDeployment itself are never cached but read in every pass.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from moriio_operator.control.queue import Key
from moriio_operator.kube.kinds import POD, Kind
from moriio_operator.kube.objects import Object

# Versions of objects of one kind, by name.
Versions: TypeAlias = dict[str, str]


class ObservedVersion(NamedTuple):
    """The version of an object that an event reports; a deleted one has none."""

    kind: str
    name: str
    uid: str
    version: str | None


class ChildCache:
    """Children by PDDeployment and kind, without those fields that say who wrote what."""

    def __init__(self) -> None:
        self._owners: dict[Key, str] = {}
        self._known: dict[Key, dict[str, dict[str, Object]]] = {}
        # The PDDeployment and its engines, as the last pass left the one and saw the others.
        self._passed: dict[Key, tuple[str, Versions]] = {}
        self._events: defaultdict[Key, dict[tuple[str, str], ObservedVersion]] = defaultdict(dict)

    def invalidate(self, key: Key, observed: ObservedVersion) -> bool:
        """Take in an event; return whether it is news."""
        pending = self._events.get(key, {})
        # What was reported before may be of a write whose answer is still under way.
        if self._agrees(key, observed) and (observed.kind, observed.name) not in pending:
            return False
        self._events[key][observed.kind, observed.name] = observed
        return True

    def stale(
        self, key: Key, kinds: Iterable[Kind], owner_uid: str
    ) -> tuple[list[Kind], list[Object]]:
        """Give the kinds that must be read, and all children of the others.

        Both at one moment, since the resync may forget it all while the rest is being read.
        Events from now on make stale what is read then.
        """
        if self._owners.get(key) != owner_uid:
            self.forget(key)
            self._owners[key] = owner_uid
        events = self._events.pop(key, {}).values()
        changed = {observed.kind for observed in events if not self._agrees(key, observed)}
        known = self._known.setdefault(key, {})
        unknown = [kind for kind in kinds if kind.kind in changed or kind.kind not in known]
        fresh = known.keys() - {kind.kind for kind in unknown}
        return unknown, [obj for kind in fresh for obj in known[kind].values()]

    def store(self, key: Key, kind: Kind, objects: Iterable[Object]) -> None:
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

    def passed(self, key: Key, version: str, pods: Iterable[Object]) -> None:
        """Take in that a pass has ended well: the version it left, and the engines it saw."""
        self._passed[key] = (version, _versions(pods))

    def agrees_with(self, key: Key, resource: Object, found: Mapping[str, Versions]) -> bool:
        """Return whether nothing has changed since the last pass; `found` is by kind."""
        metadata = resource["metadata"]
        if self._owners.get(key) != metadata["uid"] or self._events.get(key):
            return False
        known = {kind: _versions(named.values()) for kind, named in self._known[key].items()}
        version, pods = self._passed.get(key, ("", {}))
        return (
            version == metadata["resourceVersion"]
            and pods == found.get(POD.kind, {})
            and all(versions == found.get(kind, {}) for kind, versions in known.items())
        )

    def keys(self) -> list[Key]:
        """Give the PDDeployments of which anything is known."""
        return list(self._owners)

    def forget(self, key: Key) -> None:
        """Read everything of this PDDeployment anew."""
        for table in (self._known, self._owners, self._passed, self._events):
            table.pop(key, None)

    def forget_all(self) -> None:
        """Read everything anew."""
        for key in self.keys():
            self.forget(key)

    def _agrees(self, key: Key, observed: ObservedVersion) -> bool:
        of_kind = self._known.get(key, {}).get(observed.kind)
        if of_kind is None:
            return False
        known = of_kind.get(observed.name)
        if known is None or observed.version is None:
            # A deletion that was ours, or of an object that was made anew since.
            return known is None and observed.version is None
        metadata = known["metadata"]
        return bool(
            metadata["uid"] == observed.uid and metadata["resourceVersion"] == observed.version
        )


def _lean(obj: Object) -> Object:
    metadata = {k: v for k, v in obj["metadata"].items() if k != "managedFields"}
    return {**obj, "metadata": metadata}


def _versions(objects: Iterable[Object]) -> Versions:
    return {obj["metadata"]["name"]: obj["metadata"]["resourceVersion"] for obj in objects}

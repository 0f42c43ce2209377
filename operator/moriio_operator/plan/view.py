"""A revision as planners see it: what was accepted of it, and which of its engines exist.

A pass looks at all revisions that live: the one that was accepted last, the one that the spec asks
for, and every one that still has engines. Each planner takes them as a list, so that how many there
are is nobody's assumption.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from moriio_operator.api.status import Status
from moriio_operator.facts.terms import ROLES, Role
from moriio_operator.observe.engine import Engine
from moriio_operator.plan.neighbours import unplaced, without_duplicates


@dataclass(frozen=True, slots=True)
class EngineShape:
    """What a revision's templates say of its engines: ports per engine, and whose network."""

    block_sizes: Mapping[Role, int]
    host_network: bool = False


@dataclass(frozen=True, slots=True)
class RevisionView:
    """One revision; `shape` is None while no templates of it are known."""

    name: str
    engines: tuple[Engine, ...] = ()
    # How many engines of each role were accepted; empty for a revision that never was.
    accepted: Mapping[Role, int] | None = None
    shape: EngineShape | None = None
    # Whether the admin's policy, as it is now, allows what its templates ask for.
    allowed: bool = True

    @property
    def lives(self) -> bool:
        """Whether engines of it exist, in whatever state."""
        return bool(self.engines)

    def of_role(self, role: Role) -> list[Engine]:
        """Give its engines of a role that count: not those that terminate or have ended."""
        return [e for e in self.engines if e.role is role and not e.is_leaving]


def accepted_counts(status: Status, revision: str) -> dict[Role, int]:
    """Give how many engines of a revision the status records as accepted; empty if it does not."""
    found = {Role(e.name): e.desired for e in status.roles if e.revision == revision}
    return found if found.keys() == set(ROLES) else {}


def view_of(views: Iterable[RevisionView], name: str) -> RevisionView:
    """Give a revision's view; an empty one if nothing of it is there."""
    return next((view for view in views if view.name == name), RevisionView(name))


def engines_of(views: Iterable[RevisionView]) -> list[Engine]:
    """Give the engines of all revisions."""
    return [engine for view in views for engine in view.engines]


def beside(views: Sequence[RevisionView], neighbours: Sequence[Engine]) -> tuple[RevisionView, ...]:
    """Give the views, with engines whose ports a neighbour holds taken for ended ones."""
    judged = {e.uid: e for e in without_duplicates(engines_of(views), neighbours)}
    return tuple(
        replace(view, engines=tuple(judged[engine.uid] for engine in view.engines))
        for view in views
    )


def waits_for_node(views: Iterable[RevisionView], now: datetime) -> bool:
    """Return whether a young engine on the host network has no node, and may have to give way."""
    return unplaced(engines_of(views), now)


def no_engines() -> dict[Role, int]:
    """Give the counts of a revision that is to have no engines."""
    return dict.fromkeys(ROLES, 0)

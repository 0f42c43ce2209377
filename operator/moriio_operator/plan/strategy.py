"""How a deployment comes from the revisions that live to the one that it is to have. Pure.

A strategy says for each revision how many engines it should have now, which revisions need their
routers and Services, and whose routers clients reach. It is stateless: its answer is derived anew
from what lives. The planner of a step then brings each revision to its counts.

Today there is one: stop and start. All engines of other revisions go before the first one of the
target comes, since GPU nodes are full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from moriio_operator.facts.terms import Role
from moriio_operator.plan.decision import Target
from moriio_operator.plan.view import RevisionView, no_engines


@dataclass(frozen=True, slots=True)
class Course:
    """What each living revision should have now."""

    # Engines by role and revision. A revision that is not listed is left as it is.
    counts: Mapping[str, Mapping[Role, int]]
    # Revisions whose routers and Services must exist.
    served: tuple[str, ...]
    # The revision whose routers the client Service selects.
    client: str
    # Whether the target waits for another revision to go.
    waits: bool = False


def stop_and_start(views: Sequence[RevisionView], target: Target) -> Course:
    """Bring all other revisions to nothing, then the target to its counts."""
    others = [view.name for view in views if view.lives and view.name != target.revision]
    if not others:
        served = (target.revision,)
        return Course({target.revision: target.counts}, served, client=target.revision)
    counts = {name: no_engines() for name in others}
    return Course(counts, tuple(others), client=others[0], waits=True)


def as_it_is(views: Sequence[RevisionView], revision: str) -> Course:
    """Leave every revision as it is; clients reach the one that has engines."""
    living = tuple(view.name for view in views if view.lives)
    return Course({}, living, client=next(iter(living), revision))

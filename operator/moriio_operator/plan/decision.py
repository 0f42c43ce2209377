"""What a pass does about the spec, decided once and passed on as one value. Pure.

    Act      the spec is acted on. If its revision runs already, it is acted on although the API
             server refuses parts of it: what runs is kept whole, and the other parts change.
    Keep     the spec is refused, and what was accepted last is kept: replaced when it ends, healed
             when it is edited, with the counts that were accepted, whatever the spec says by now.
    Freeze   the spec is refused, and there is nothing to keep: nothing was accepted yet, or its
             templates are gone, or the admin forbids by now what they ask for.

Only the target of an Act or a Keep has counts, and both were accepted: those of a refused spec are
in no decision, and so never reach the planner or the status.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from moriio_operator.api.problem import Problem
from moriio_operator.facts.terms import Role
from moriio_operator.plan.view import RevisionView, engines_of, view_of


@dataclass(frozen=True, slots=True)
class Target:
    """A revision and how many engines of each role it is to have."""

    revision: str
    counts: Mapping[Role, int]


@dataclass(frozen=True, slots=True)
class Refusal:
    """What the API server refuses of a revision: the engines of a role, or another child.

    Without a problem it is only a matter of waiting, such as for quota that is about to be freed.
    """

    revision: str
    role: Role | None
    problem: Problem | None


@dataclass(frozen=True, slots=True)
class Act:
    """Act on the spec; no engine of a blocked role can be created now."""

    target: Target
    problems: tuple[Problem, ...] = ()
    blocked: frozenset[Role] = frozenset()


@dataclass(frozen=True, slots=True)
class Keep:
    """Keep what was accepted last."""

    target: Target
    problems: tuple[Problem, ...] = ()
    blocked: frozenset[Role] = frozenset()


@dataclass(frozen=True, slots=True)
class Freeze:
    """Change nothing. `revision` is the one that was accepted last, None if none was."""

    revision: str | None
    problems: tuple[Problem, ...] = ()


Decision: TypeAlias = Act | Keep | Freeze


def judge(
    asked: Target,
    accepted: str | None,
    views: Sequence[RevisionView],
    problems: Sequence[Problem],
    refusals: Sequence[Refusal] = (),
) -> Decision:
    """Decide.

    `asked` is what the spec asks for, `accepted` the revision that was accepted last, `problems`
    what is wrong with the spec by itself, `refusals` what the API server is known to refuse.
    """
    refused = [r for r in refusals if r.revision == asked.revision and r.problem is not None]
    found = (*problems, *dict.fromkeys(r.problem for r in refused if r.problem is not None))
    if not problems and (not refused or _runs(asked.revision, views)):
        return Act(asked, found, _blocked(asked.revision, refusals))
    kept = None if accepted is None else view_of(views, accepted)
    if kept is None or not _can_be_kept(kept, views, refusals):
        return Freeze(accepted, found)
    return Keep(Target(kept.name, kept.accepted or {}), found, _blocked(kept.name, refusals))


def _runs(revision: str, views: Sequence[RevisionView]) -> bool:
    """Return whether a revision has engines, and no other has."""
    return {engine.revision for engine in engines_of(views)} == {revision}


def _can_be_kept(
    view: RevisionView, views: Sequence[RevisionView], refusals: Sequence[Refusal]
) -> bool:
    # Without the counts that were accepted it could only be brought to nothing.
    if view.shape is None or not view.allowed or not view.accepted:
        return False
    refused = [r for r in refusals if r.revision == view.name and r.problem is not None]
    # Accepted before, it has not begun: what still serves must not stop for what cannot come.
    if refused and any(e.revision != view.name and not e.is_leaving for e in engines_of(views)):
        return False
    # Engines without the children that they need would serve nobody.
    childless = any(refusal.role is None for refusal in refused)
    return not childless or _runs(view.name, views)


def _blocked(revision: str, refusals: Sequence[Refusal]) -> frozenset[Role]:
    return frozenset(r.role for r in refusals if r.revision == revision and r.role is not None)

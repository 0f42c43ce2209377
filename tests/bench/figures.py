"""From what was seen to the table: percentiles, calls a PDDeployment, Markdown."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.ledger import Entry

_BEGIN = "<!-- bench: begin -->"
_END = "<!-- bench: end -->"
CATEGORIES = ("reads", "status writes", "other writes", "events", "dry runs")


@dataclass(frozen=True, slots=True)
class Latency:
    """How long something took, over many times."""

    p50_s: float
    p99_s: float
    times: int


def latency(seconds: Iterable[float]) -> Latency:
    """Summarize; the 99th percentile of a hundred is the worst but one."""
    ordered = sorted(seconds)
    return Latency(_percentile(ordered, 50), _percentile(ordered, 99), len(ordered))


def _percentile(ordered: Sequence[float], percent: int) -> float:
    return ordered[math.ceil(len(ordered) * percent / 100) - 1]


def calls_each(entries: Iterable[Entry], deployments: int) -> dict[str, float]:
    """Count calls by category, a PDDeployment."""
    counted = Counter(entry.category for entry in entries)
    return {category: counted[category] / deployments for category in CATEGORIES}


def made_until(entries: Iterable[Entry], deployments: Iterable[str]) -> dict[str, list[float]]:
    """Give, for each PDDeployment, when each of its objects was made."""
    made: dict[str, list[float]] = {name: [] for name in deployments}
    for entry in entries:
        owner = owner_of(entry.name, made)
        if owner is not None and entry.made and entry.resource != "events":
            made[owner].append(entry.answered)
    return made


def first(entries: Iterable[Entry], verb: str, resource: str) -> dict[str, float]:
    """Give for each PDDeployment when a call about it, or about an object of its, was answered."""
    answered: dict[str, float] = {}
    for entry in entries:
        if (entry.verb, entry.resource, entry.subresource) == (verb, resource, ""):
            answered.setdefault(_owner(entry.name), entry.answered)
    return answered


def owner_of(name: str, deployments: Mapping[str, object]) -> str | None:
    """Tell whose an object is by its name: the first two words, as all are named `round-000`."""
    owner = _owner(name)
    return owner if owner in deployments else None


def _owner(name: str) -> str:
    return "-".join(name.split("-")[:2])


def table(rows: Sequence[Sequence[str]]) -> str:
    """Write a Markdown table; the first row is its head."""
    head, *rest = ("| " + " | ".join(row) + " |" for row in rows)
    return "\n".join([head, "|" + " --- |" * len(rows[0]), *rest])


def put(page: Path, text: str) -> None:
    """Replace what stands between the marks of a page."""
    before, found, rest = page.read_text().partition(_BEGIN)
    _, found_end, after = rest.partition(_END)
    if not (found and found_end):
        raise ValueError(f"{page} lacks the marks {_BEGIN} and {_END}")
    page.write_text(f"{before}{_BEGIN}\n{text}\n{_END}{after}")

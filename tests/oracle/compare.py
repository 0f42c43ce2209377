"""Runs every comparison on a release."""

from __future__ import annotations

from collections.abc import Iterator

from oracle.ask import UnansweredError
from oracle.release import Release, Row, Rule
from oracle.rules import RULES


def rows(release: Release) -> Iterator[Row]:
    """Give every difference between a release and our contract."""
    for name, rule in RULES.items():
        yield from apply(name, rule, release)


def apply(name: str, rule: Rule, release: Release) -> Iterator[Row]:
    """Give the differences that one comparison finds; a release that it cannot ask is one too."""
    try:
        yield from rule(release)
    except UnansweredError as error:
        yield Row(release.name, name, f"nothing that we can ask: {error}", "its code can be asked")

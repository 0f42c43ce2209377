"""Flags and variables that we render: each must be one that the release's sources declare."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from moriio_operator.facts import flags
from moriio_operator.facts.versions import Version

from oracle.ask import Question, ask
from oracle.release import Release, Row
from oracle.spread import cases

# Where vLLM declares flags: as literals, or as fields of classes that flags are made from.
_PLACES = ("engine", "entrypoints", "config")
_OURS = "VLLM_"


def declared_flags(tree: Path) -> set[str]:
    """Find the flags that the sources of a release declare."""
    found: set[str] = set()
    for place in _PLACES:
        for file in sorted((tree / "vllm" / place).rglob("*.py")):
            text = file.read_text()
            found.update(re.findall(r"\"(--[a-z][a-z0-9-]*)\"", text))
            fields = re.findall(r"^    ([a-z][a-z0-9_]*): ", text, re.MULTILINE)
            found.update(f"--{field.replace('_', '-')}" for field in fields)
    return found


def differences(release: Release) -> Iterator[Row]:
    """Look up every flag and every variable of vLLM that the spread renders or the tables name."""
    rendered = list(cases(release.rules))
    declared = declared_flags(release.tree)
    words = {word for case in rendered for word in case.arguments if word.startswith("--")}
    asked = {word.partition("=")[0]: "we render it" for word in words}
    asked |= dict.fromkeys(_named(release.rules), "our tables have it for this version")
    for flag, ours in sorted(asked.items()):
        if not _is_declared(flag, declared):
            yield Row(release.name, f"flag {flag}", "nothing: it is not declared", ours)
    for later in flags.RENDERED:
        if later.first > release.rules and _is_declared(later.name, declared):
            ours = f"it is there from {later.first}"
            yield Row(release.name, f"flag {later.name}", "it is declared", ours)
    variables = {name for case in rendered for name in case.environment if name.startswith(_OURS)}
    yield from _variables(release, sorted(variables))


def _named(version: Version) -> Iterator[str]:
    """Name the flags of our tables that a version must have."""
    yield from (flag.name for flag in flags.RENDERED if flag.first <= version)
    yield from (flag.name for flag in flags.REFUSED if flag.first <= version)


def _is_declared(flag: str, declared: set[str]) -> bool:
    return flag in declared or f"--{flag.removeprefix('--no-')}" in declared


def _variables(release: Release, names: list[str]) -> Iterator[Row]:
    [answer] = ask(release.tree, [Question("variables", {"names": names, "environment": {}})])
    for name in names:
        if answer.raised is not None or name not in answer.value:
            theirs = answer.raised or "nothing: it is not declared"
            yield Row(release.name, f"variable {name}", theirs, "we set it")

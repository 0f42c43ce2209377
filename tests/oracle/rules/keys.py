"""Keys of the connector's configuration: facts/keys.py against what a release reads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from moriio_operator.facts.keys import KEYS, VARIABLES, variables

from oracle.ask import Answer, Question, ask
from oracle.release import Release, Row
from oracle.sources import CONNECTOR

# A complete configuration, for a release that demands everything.
_COMPLETE: Mapping[str, Any] = {
    "proxy_ip": "",
    "proxy_ping_port": 0,
    "host_ip": "198.18.1.7",
    "http_port": 20_000,
    "handshake_port": 20_002,
    "notify_port": 20_003,
}
# Where a key is read outside of the class that the running code shows: `extra_config["key"]`,
# `extra_config.get("key")`, `"key" in extra_config`.
_READ = re.compile(
    r"extra_config(?:\.get\(|\[)\s*\"(\w+)\"|\"(\w+)\" (?:not )?in \w*extra_config\b"
)
_FIELDS = {"host_ip": "local_ip"}
# Its default is no text but the host's address.
_NO_PLAIN_DEFAULT = frozenset({"host_ip"})


def read_in_sources(tree: Path) -> set[str]:
    """Find the keys that the connector's sources name."""
    texts = [file.read_text() for file in sorted((tree / CONNECTOR).glob("*.py"))]
    return {a or b for text in texts for a, b in _READ.findall(text)}


def differences(release: Release) -> Iterator[Row]:
    """Compare which keys are read, which are demanded, and what stands for an absent one."""
    ours = {key.name: key for key in KEYS if key.first <= release.rules}
    without = [{k: v for k, v in _COMPLETE.items() if k != name} for name in ours]
    whole, *reduced = ask(release.tree, [_question(extra) for extra in (_COMPLETE, *without)])
    if whole.raised is not None:
        yield Row(release.name, "a complete configuration", whole.raised, "it is read")
        return
    theirs = set(whole.value["asked"]) | read_in_sources(release.tree)
    for name in sorted(theirs - ours.keys()):
        yield Row(release.name, f"key {name}", "it is read", "nothing of it")
    for name in sorted(ours.keys() - theirs):
        yield Row(release.name, f"key {name}", "nothing: it is not read", "it is known")
    for name, answer in zip(ours, reduced, strict=True):
        yield from _when_absent(release, name, ours[name].default, answer)
    yield from _variables(release)


def least_configuration() -> Question:
    """Ask for a configuration in which every default shows."""
    return _question(_COMPLETE)


def _question(extra: Mapping[str, Any]) -> Question:
    ranks = {"tensor": 1, "tensor_rank": 0, "data": 1, "data_rank": 0}
    return Question("config", {"extra": dict(extra), "ranks": ranks, "environment": {}})


def _when_absent(release: Release, name: str, default: str, answer: Answer) -> Iterator[Row]:
    key = next(key for key in KEYS if key.name == name)
    demanded = answer.raised is not None
    if demanded != key.demanded(release.rules):
        ours = "it is demanded" if key.demanded(release.rules) else f"{default!r} stands for it"
        yield Row(release.name, f"key {name} left out", str(answer.raised or "fine"), ours)
    if demanded or name in _NO_PLAIN_DEFAULT:
        return
    value = answer.value["fields"].get(_FIELDS.get(name, name))
    if not _same(value, default):
        yield Row(release.name, f"default of key {name}", repr(value), repr(default))


def _variables(release: Release) -> Iterator[Row]:
    """Compare the variables that stand for keys, and what stands for an absent one."""
    names = [variable.name for variable in VARIABLES]
    ours = {v.name: v.default for v in variables(release.rules)}
    [answer] = ask(release.tree, [Question("variables", {"names": names, "environment": {}})])
    if answer.raised is not None:
        yield Row(release.name, "variables", answer.raised, "they are declared or not")
        return
    for name in names:
        declared = name in answer.value
        if declared != (name in ours):
            theirs = "it is read" if declared else "nothing: it is not declared"
            yield Row(release.name, f"variable {name}", theirs, ours.get(name, "it is ignored"))
        elif declared and not _same(answer.value[name], ours[name]):
            subject = f"default of variable {name}"
            yield Row(release.name, subject, repr(answer.value[name]), repr(ours[name]))


def _same(value: Any, text: str) -> bool:
    """Whether a value is what a table's text says, be it 30 or 30.0, False or false."""
    if isinstance(value, float):
        return value == float(text)
    return str(value).lower() == text.lower()

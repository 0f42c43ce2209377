"""The chart's values.yaml as a tree: each value with its path, default, description and limits.

A comment right above a key describes it; lines of it that begin with `@schema` are, put together,
YAML with what JSON schema says about the value beyond its default's type. A value without a
description, or whose type nothing tells, is refused with its line: the README and the schema are
made from this tree and would be silent about it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parents[2] / "charts/moriio-operator"

# `@schema ` and the rest, whose indentation is YAML's.
_SCHEMA = re.compile(r"@schema (.+)")
_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}


class UntoldError(ValueError):
    """A value says too little about itself; the text names its path and line."""


@dataclass(frozen=True, slots=True)
class Value:
    """One key of values.yaml: a value, or a group of them."""

    path: str
    default: Any
    description: str
    # As JSON schema, the description aside.
    schema: dict[str, Any]
    # The values of a group; none in a value.
    members: tuple[Value, ...] = ()

    @property
    def name(self) -> str:
        """The key itself."""
        return self.path.rpartition(".")[2]


def read(text: str | None = None) -> tuple[Value, ...]:
    """Read values.yaml, or a text of its kind.

    Raises:
        UntoldError: a value has no description, or its type cannot be known.
    """
    if text is None:
        text = (CHART / "values.yaml").read_text()
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    return tuple(_members(root, text.splitlines(), ""))


def walk(values: Iterable[Value]) -> Iterator[Value]:
    """Give groups and values, each group before its members."""
    for value in values:
        yield value
        yield from walk(value.members)


def _members(mapping: Any, lines: list[str], above: str) -> Iterator[Value]:
    for key, node in mapping.value:
        yield _value(f"{above}{key.value}", node, lines, key.start_mark.line)


def _value(path: str, node: Any, lines: list[str], line: int) -> Value:
    description, schema = _comment(lines, line)
    default = yaml.safe_load(yaml.serialize(node))
    where = f"{path} (line {line + 1})"
    if not description:
        raise UntoldError(f"{where} has no comment above it")
    if isinstance(default, dict) and default and "properties" not in schema:
        members = tuple(_members(node, lines, f"{path}."))
        return Value(path, default, description, {"type": "object", **schema}, members)
    return Value(path, default, description, _typed(default, schema, where))


def _comment(lines: list[str], line: int) -> tuple[str, dict[str, Any]]:
    """Give what the comment block that ends right above a line says, and its schema."""
    block: list[str] = []
    while line > 0 and (found := re.match(r" *# ?(.*)", lines[line - 1])):
        block.insert(0, found[1])
        line -= 1
    words = [text for text in block if not _SCHEMA.match(text)]
    schema = [found[1] for text in block if (found := _SCHEMA.match(text))]
    return " ".join(words), yaml.safe_load("\n".join(schema)) or {}


def _typed(default: Any, schema: dict[str, Any], where: str) -> dict[str, Any]:
    """Complete what a value's comment says by what its default tells."""
    if isinstance(default, dict):
        # An empty map with nothing more is one of labels, annotations and their like.
        filled = {"additionalProperties": {"type": "string"}, **schema}
        return {"type": "object", **filled}
    known = schema.get("type") or _TYPES.get(type(default))
    if known is None:
        raise UntoldError(f"{where} is null by default: say `@schema type: ..`")
    if known == "array" and "items" not in schema:
        raise UntoldError(f"{where} is a list: say `@schema items: ..`")
    made = {"type": known, **schema}
    if known == "array" and "properties" in made["items"]:
        made["items"] = {"type": "object", **made["items"]}
    return made

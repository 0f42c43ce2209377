"""The chart's README: its prose is README.md.in, its table of values comes from values.yaml."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from generate import chart_values
from generate.chart_values import CHART, Value

SOURCE = CHART / "README.md.in"
_PLACE = "@VALUES@\n"
_HEAD = "| Value | Type | Default | Description |\n| --- | --- | --- | --- |\n"
_MADE = "<!-- Generated from README.md.in and values.yaml by `make generate`. -->\n"


def render() -> str:
    """Give the file's text."""
    title, _, prose = SOURCE.read_text().partition("\n")
    table = _HEAD + "".join(_rows())
    return f"{title}\n\n{_MADE}{prose}".replace(_PLACE, table)


def _rows() -> Iterator[str]:
    for value in chart_values.walk(chart_values.read()):
        cells = [f"**{value.path}**", "", ""] if value.members else _cells(value)
        yield "| " + " | ".join([*cells, _cell(value.description)]) + " |\n"


def _cells(value: Value) -> list[str]:
    return [f"`{value.path}`", _type(value.schema), f"`{json.dumps(value.default)}`"]


def _type(schema: dict[str, Any]) -> str:
    """Say in words what a value may be, its bounds included."""
    if "enum" in schema:
        return ", ".join(schema["enum"])
    if isinstance(schema["type"], list):
        return " or ".join(schema["type"])
    if schema["type"] == "array":
        return f"list of {schema['items']['type']}s"
    if schema["type"] == "object":
        return "object" if "properties" in schema else "map"
    if "minimum" in schema and "maximum" in schema:
        return f"{schema['type']}, {schema['minimum']} to {schema['maximum']}"
    return str(schema["type"])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")

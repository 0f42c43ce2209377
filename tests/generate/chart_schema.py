"""The JSON schema of the chart's values, by which helm refuses what is none of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from generate import chart_values
from generate.chart_values import Value

# Helm hands `global` to every chart that is a part of another.
_GLOBAL = {
    "description": "Helm hands it to every chart; nothing of it is used.",
    "type": "object",
}


def render() -> str:
    """Give the file's text."""
    properties = {**_properties(chart_values.read()), "global": _GLOBAL}
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$comment": "Generated from values.yaml by `make generate`.",
        "title": "Values of the chart moriio-operator",
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
    }
    return json.dumps(schema, indent=2) + "\n"


def _properties(values: Iterable[Value]) -> dict[str, Any]:
    return {value.name: _schema(value) for value in values}


def _schema(value: Value) -> dict[str, Any]:
    described = {"description": value.description, **value.schema}
    if value.members:
        described |= {
            "additionalProperties": False,
            "properties": _properties(value.members),
        }
    return described

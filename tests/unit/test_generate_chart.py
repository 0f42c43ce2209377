"""The chart's README and schema as they come from the comments in values.yaml."""

from __future__ import annotations

import json
from typing import Any

import pytest
from generate import chart_readme, chart_schema, chart_values
from generate.__main__ import files, main
from generate.chart_values import CHART, UntoldError, Value


def one(text: str) -> Value:
    (value,) = chart_values.read(text)
    return value


def schema_of(path: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(chart_schema.render())
    for key in path.split("."):
        schema = schema["properties"][key]
    return schema


def test_the_comment_above_a_key_describes_it() -> None:
    value = one("# Not this: an empty line is between.\n\n# First line,\n# second line.\na: 1\n")

    assert value.description == "First line, second line."


@pytest.mark.parametrize(
    ("line", "schema"),
    [
        ("a: true", {"type": "boolean"}),
        ("a: 3", {"type": "integer"}),
        ("a: 0.5", {"type": "number"}),
        ('a: ""', {"type": "string"}),
        ("a: {}", {"type": "object", "additionalProperties": {"type": "string"}}),
        ("# @schema minimum: 2\na: 3", {"type": "integer", "minimum": 2}),
        ('# @schema type: [integer, "null"]\na: null', {"type": ["integer", "null"]}),
        (
            "# @schema items: {type: integer}\na: [1]",
            {"type": "array", "items": {"type": "integer"}},
        ),
        (
            "# @schema items:\n# @schema   properties: {b: {type: string}}\na: []",
            {
                "type": "array",
                "items": {"type": "object", "properties": {"b": {"type": "string"}}},
            },
        ),
        (
            "# @schema properties: {b: {type: string}}\na: {b: c}",
            {
                "type": "object",
                "properties": {"b": {"type": "string"}},
                "additionalProperties": {"type": "string"},
            },
        ),
    ],
)
def test_the_default_tells_the_type_and_the_comment_the_rest(
    line: str, schema: dict[str, Any]
) -> None:
    assert one(f"# A value.\n{line}\n").schema == schema


def test_a_map_with_keys_is_a_group() -> None:
    group = one("# A group.\na:\n  # A member.\n  b: 1\n")

    assert [(v.path, v.name) for v in chart_values.walk([group])] == [("a", "a"), ("a.b", "b")]
    assert group.members[0].description == "A member."


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: 1", r"a \(line 1\) has no comment above it"),
        ("# A group.\na:\n  b: 1", r"a\.b \(line 3\) has no comment above it"),
        ("# @schema minimum: 1\na: 1", r"a \(line 2\) has no comment above it"),
        ("# A.\na: null", r"a \(line 2\) is null by default: say `@schema type"),
        ("# A.\na: []", r"a \(line 2\) is a list: say `@schema items"),
    ],
)
def test_a_value_that_tells_too_little_is_refused_with_its_line(text: str, told: str) -> None:
    with pytest.raises(UntoldError, match=told):
        chart_values.read(text)


def test_the_table_has_a_row_for_every_value_in_the_order_of_the_file() -> None:
    rows = [line for line in chart_readme.render().splitlines() if line.startswith("| ")]
    shown = [row.split(" | ")[0].strip("| `*") for row in rows]

    assert shown[2:] == [value.path for value in chart_values.walk(chart_values.read())]


@pytest.mark.parametrize(
    "row",
    [
        "| `replicas` | integer, 1 to 9 | `1` | Number of operator pods. One leads",
        '| `logLevel` | debug, info, warning, error | `"info"` | Minimum severity',
        "| `policy.maxGpus` | integer or null | `null` | Maximum number of GPUs",
        "| `policy.imagePrefixes` | list of strings | `[]` | Allowed prefixes of the images",
        "| `networkPolicy.apiServer.ports` | list of integers | `[443, 6443]` | Its ports",
        "| `nodeSelector` | map | `{}` | Node labels",
        "| `affinity` | object | `{}` | Affinity of the operator",
        "| **crds** |  |  | The CustomResourceDefinitions. |",
    ],
)
def test_a_row_tells_type_default_and_description(row: str) -> None:
    assert f"\n{row}" in chart_readme.render()


def test_the_readme_keeps_its_prose() -> None:
    text = chart_readme.render()

    assert text.startswith("# Chart moriio-operator\n")
    for title in ("Install", "Grant namespaces", "Upgrade", "Uninstall", "Values"):
        assert f"\n## {title}\n" in text
    assert "@VALUES@" not in text


def test_a_description_in_the_table_is_the_one_in_the_schema() -> None:
    described = schema_of("policy.maxGpus")["description"]

    assert f"| {described} |" in chart_readme.render()


def test_groups_of_the_schema_refuse_what_they_do_not_know() -> None:
    assert schema_of("metrics.podMonitor")["additionalProperties"] is False
    assert schema_of("networkPolicy.apiServer")["additionalProperties"] is False


def test_the_check_fails_by_name_when_a_file_differs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = "charts/moriio-operator/README.md is stale"
    before = (CHART / "README.md").read_text()
    assert {CHART / "README.md", CHART / "values.schema.json"} <= files().keys()
    main(["--check"])
    assert told not in capsys.readouterr().out

    monkeypatch.setattr(chart_readme, "_HEAD", "| another head |\n")

    assert main(["--check"]) == 1
    assert told in capsys.readouterr().out
    assert (CHART / "README.md").read_text() == before

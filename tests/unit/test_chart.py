"""The chart's files against each other and against the operator, without helm."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from moriio_operator import __version__
from moriio_operator.api import crd
from moriio_operator.plan.policy import Policy
from moriio_operator.runtime.settings import Ports, Settings

REPO = Path(__file__).parents[2]
CHART = REPO / "charts/moriio-operator"
CRD_FILE = "moriio.dev_pddeployments.yaml"

# Kubernetes' own objects in values: free inside, so a leaf for us.
_KUBERNETES_OBJECTS = frozenset({"resources"})
# Helm hands `global` to every chart that is a part of another; it is no value of ours.
_HELMS_OWN = frozenset({"global"})

Json = dict[str, Any]


def _values() -> Json:
    values: Json = yaml.safe_load((CHART / "values.yaml").read_text())
    return values


def _schema() -> Json:
    schema: Json = json.loads((CHART / "values.schema.json").read_text())
    return schema


def _leaves(values: Json, above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        path = f"{above}{key}"
        if isinstance(value, dict) and value and path not in _KUBERNETES_OBJECTS:
            yield from _leaves(value, f"{path}.")
        else:
            yield path, value


def _schema_leaves(schema: Json, above: str = "") -> Iterator[str]:
    for key, inner in schema["properties"].items():
        path = f"{above}{key}"
        ours = inner.get("additionalProperties") is False and path != "affinity"
        if path not in _HELMS_OWN:
            if ours and path not in _KUBERNETES_OBJECTS:
                yield from _schema_leaves(inner, f"{path}.")
            else:
                yield path


def _objects(schema: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    if schema.get("type") == "object":
        yield path, schema
    for key, inner in schema.get("properties", {}).items():
        yield from _objects(inner, f"{path}.{key}")
    if "items" in schema:
        yield from _objects(schema["items"], f"{path}[]")


def _comments() -> dict[str, str]:
    """Give the comment on the line above each value, by the value's path."""
    comments: dict[str, str] = {}
    path: list[str] = []
    above = ""
    for line in (CHART / "values.yaml").read_text().splitlines():
        if found := re.match(r"( *)([A-Za-z]+):", line):
            path = [*path[: len(found[1]) // 2], found[2]]
            if above:
                comments[".".join(path)] = above
        comment = re.match(r" *# (.+)", line)
        above = comment[1] if comment else ""
    return comments


def _template(name: str) -> str:
    return (CHART / "templates" / name).read_text()


@pytest.mark.parametrize("folder", ["crds", "charts/moriio-operator/files"])
def test_the_definition_is_what_the_models_give(folder: str) -> None:
    assert (REPO / folder / CRD_FILE).read_text() == crd.render(), "run `make generate`"


def test_the_chart_speaks_of_this_version_of_the_operator() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())

    assert chart["appVersion"] == __version__
    assert chart["version"] == __version__


def test_values_and_schema_know_the_same_keys() -> None:
    assert {path for path, _ in _leaves(_values())} == set(_schema_leaves(_schema()))


def test_the_schema_refuses_unknown_keys_of_every_object_of_ours() -> None:
    # Inside Kubernetes' own objects (affinity rules) the API server judges.
    kubernetes = ".affinity."
    lenient = {
        path
        for path, schema in _objects(_schema())
        if "additionalProperties" not in schema and not path.startswith(kubernetes)
    }

    assert lenient == {".global"}


def test_every_value_has_a_comment_and_the_readme_says_the_same() -> None:
    comments = _comments()
    expected = [
        (path, json.dumps(default), comments.get(path, "no comment in values.yaml"))
        for path, default in _leaves(_values())
    ]
    row = re.compile(r"^\| `([\w.]+)` \| `(.*)` \| (.+) \|$", re.MULTILINE)

    assert row.findall((CHART / "README.md").read_text()) == expected
    assert {path for path, _ in _leaves(_values())} <= comments.keys()


def test_the_settings_file_holds_every_setting_and_no_other() -> None:
    start = _template("_helpers.tpl").index('define "moriio-operator.settings"')
    text = _template("_helpers.tpl")[start:]
    rendered = re.findall(r'^ +"(\w+)" [(.]', text, re.MULTILINE)
    known = [
        field.alias for model in (Settings, Policy, Ports) for field in model.model_fields.values()
    ]

    assert sorted(rendered) == sorted(str(alias) for alias in known)


@pytest.mark.parametrize("key", ["workers", "resyncSeconds", "logLevel", "httpPort", "namespaces"])
def test_a_default_is_the_operators_own(key: str) -> None:
    own = Settings(registrar_image="image", registrar_cluster_role="role")

    assert _values()[key] == own.model_dump(by_alias=True)[key]


@pytest.mark.parametrize("key", ["policy", "ports"])
def test_a_group_of_defaults_is_the_operators_own(key: str) -> None:
    own = Settings(registrar_image="image", registrar_cluster_role="role")

    assert _values()[key] == own.model_dump(by_alias=True)[key]


def test_no_right_reaches_users_by_aggregation() -> None:
    for template in (CHART / "templates").iterdir():
        assert "aggregate-to-" not in template.read_text(), template.name


def test_rights_are_named_never_wild() -> None:
    rights = re.findall(r"(?:apiGroups|resources|verbs): \[(.*)\]", _template("rbac.yaml"))

    assert rights
    assert not [right for right in rights if "*" in right]

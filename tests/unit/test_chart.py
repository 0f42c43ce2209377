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
from moriio_operator.admission.policy import Policy
from moriio_operator.api import crd
from moriio_operator.api.network import RESERVED_PORTS
from moriio_operator.runtime.settings import LeaderElection, Ports, RegistrarRole, Settings

from unit.samples import SETTINGS

REPO = Path(__file__).parents[2]
CHART = REPO / "charts/moriio-operator"
EVERYTHING = REPO / "tests/chart_values/everything.yaml"

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


def _template(name: str) -> str:
    return (CHART / "templates" / name).read_text()


@pytest.mark.parametrize("folder", ["crds", "charts/moriio-operator/files"])
def test_the_definitions_are_what_the_models_give(folder: str) -> None:
    files = {path.name: path.read_text() for path in (REPO / folder).iterdir()}
    assert files == {r.file: crd.render(r) for r in crd.RESOURCES}, "run `make generate`"


def test_the_chart_speaks_of_this_version_of_the_operator() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())

    assert chart["appVersion"] == __version__
    assert chart["version"] == __version__


def test_values_and_schema_know_the_same_keys() -> None:
    assert {path for path, _ in _leaves(_values())} == set(_schema_leaves(_schema()))


def test_the_set_everything_holds_every_value_other_than_its_default() -> None:
    # It names no namespaces, since rights of the cluster are the wider case.
    left_out = {"crds.install", "namespaces"}
    # Only one monitor may be there.
    left_out |= {f"metrics.podMonitor.{key}" for key in ("enabled", "interval", "labels")}
    chosen = dict(_leaves(yaml.safe_load(EVERYTHING.read_text())))
    changed = {path for path, default in _leaves(_values()) if _at(chosen, path) != default}

    assert changed == {path for path, _ in _leaves(_values())} - left_out


def _at(chosen: Json, path: str) -> Any:
    """Give a value of a set; a map is in parts there, and the absence of all is the default."""
    if path in chosen:
        return chosen[path]
    parts = {key: value for key, value in chosen.items() if key.startswith(f"{path}.")}
    return parts or dict(_leaves(_values()))[path]


def test_the_schema_refuses_unknown_keys_of_every_object_of_ours() -> None:
    # Inside Kubernetes' own objects (affinity rules) the API server judges.
    kubernetes = ".affinity."
    lenient = {
        path
        for path, schema in _objects(_schema())
        if "additionalProperties" not in schema and not path.startswith(kubernetes)
    }

    assert lenient == {".global"}


def test_the_settings_file_holds_every_setting_and_no_other() -> None:
    start = _template("_helpers.tpl").index('define "moriio-operator.settings"')
    text = _template("_helpers.tpl")[start:]
    rendered = re.findall(r'^ +"(\w+)" [(.]', text, re.MULTILINE)
    models = (Settings, RegistrarRole, LeaderElection, Policy, Ports)
    known = [field.alias for model in models for field in model.model_fields.values()]

    assert sorted(rendered) == sorted(str(alias) for alias in known)


@pytest.mark.parametrize(
    "key", ["workers", "resyncSeconds", "logLevel", "httpPort", "namespaces", "policy", "ports"]
)
def test_a_default_is_the_operators_own(key: str) -> None:
    own = Settings.model_validate(SETTINGS).model_dump(by_alias=True)

    assert _values()[key] == own[key]


def test_the_times_of_the_lease_are_the_operators_own() -> None:
    own = Settings.model_validate(SETTINGS).model_dump(by_alias=True)["leaderElection"]

    assert _values()["leaderElection"] == {
        key: value for key, value in own.items() if key.endswith("Seconds")
    }


def test_rights_reach_users_by_the_roles_view_and_admin_alone() -> None:
    reached = {
        role
        for template in (CHART / "templates").rglob("*.*")
        for role in re.findall(r"aggregate-to-(\w+)", template.read_text())
    }

    assert reached == {"view", "admin"}


def test_rights_are_named_never_wild() -> None:
    rights = [
        right
        for template in (CHART / "templates").rglob("*.yaml")
        for right in re.findall(r"(?:apiGroups|resources|verbs): \[(.*)\]", template.read_text())
    ]

    assert len(rights) > 30, "the search is blind"
    assert not [right for right in rights if "*" in right]


def _annotation(key: str) -> Any:
    """Give an annotation of the chart, which Artifact Hub reads as YAML."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    return yaml.safe_load(chart["annotations"][f"artifacthub.io/{key}"])


def test_the_hub_is_told_of_the_definitions_as_they_are() -> None:
    for told, resource in zip(_annotation("crds"), crd.RESOURCES, strict=True):
        definition = crd.definition(resource)
        assert told["name"] == definition["metadata"]["name"]
        assert told["kind"] == definition["spec"]["names"]["kind"]
        assert told["version"] == definition["spec"]["versions"][0]["name"]


def test_the_hub_shows_the_minimal_example() -> None:
    example = yaml.safe_load((REPO / "examples/minimal.yaml").read_text())

    assert _annotation("crdsExamples") == [example]


def test_the_hub_is_told_of_the_default_image() -> None:
    (image,) = _annotation("images")

    assert image["image"] == f"{_values()['image']['repository']}:{__version__}"


def test_the_hub_is_told_what_changed() -> None:
    kinds = {"added", "changed", "deprecated", "removed", "fixed", "security"}

    assert _annotation("changes")
    for change in _annotation("changes"):
        assert change.keys() == {"kind", "description"}
        assert change["kind"] in kinds


def test_the_hub_is_told_of_license_and_category() -> None:
    assert _annotation("license") == "Apache-2.0"
    assert "Apache License" in (REPO / "LICENSE").read_text()
    assert _annotation("category") == "ai-machine-learning"
    assert (_annotation("operator"), _annotation("prerelease")) == (True, True)


def test_the_chart_keeps_clear_of_the_same_ports_as_the_operator() -> None:
    text = (CHART / "templates/validate.yaml").read_text()
    listed = re.findall(r'\(list (\d+) (\d+) "([^"]+)"\)', text)
    assert [(int(first), int(last), whose) for first, last, whose in listed] == [*RESERVED_PORTS]

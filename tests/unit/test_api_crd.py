"""The generated CRD is structural, bounded and documented, and says the same as the models."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from moriio_operator.api import crd
from moriio_operator.api.deployment import Spec
from moriio_operator.api.report import ENGINES_MAX
from moriio_operator.api.schema import VALIDATIONS
from pydantic import BaseModel, Field

from unit.samples import FULL, MINIMAL, Json

ROOT = Path(__file__).parents[2]
PRESERVE = "x-kubernetes-preserve-unknown-fields"
LIST_KEYS = "x-kubernetes-list-map-keys"


def schema(resource: crd.CustomResource = crd.DEPLOYMENT) -> Json:
    version: Json = crd.definition(resource)["spec"]["versions"][0]
    found: Json = version["schema"]["openAPIV3Schema"]
    return found


def nodes(node: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    """Every schema node with its path."""
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    if "items" in node:
        yield from nodes(node["items"], f"{path}[]")
    if isinstance(node.get("additionalProperties"), dict):
        yield from nodes(node["additionalProperties"], f"{path}[*]")


REPORT = dict(nodes(schema(crd.REPORT)))
# Of both kinds; no path is in both, save the root's.
ALL = {**REPORT, **dict(nodes(schema()))}


def test_the_schema_holds_what_a_user_writes() -> None:
    assert {".spec.model.servedName", ".spec.decode.args[]", ".status.engines[].node"} <= ALL.keys()


def test_the_schema_of_a_report_holds_what_a_registrar_writes() -> None:
    assert {".renewTime", ".engines[].podUID", ".engines[].recurrentState"} < REPORT.keys()
    assert REPORT[".engines"]["maxItems"] == ENGINES_MAX
    assert REPORT[".engines"][LIST_KEYS] == ["podUID"]


def test_every_node_has_one_type() -> None:
    untyped = [
        path
        for path, node in ALL.items()
        if not isinstance(node.get("type"), str) and not node.get("x-kubernetes-int-or-string")
    ]
    assert untyped == []


@pytest.mark.parametrize("word", ["$ref", "$defs", "anyOf", "oneOf", "allOf", "not", "const"])
def test_no_node_holds_a_word_that_structural_schemas_lack(word: str) -> None:
    assert [path for path, node in ALL.items() if word in node] == []


@pytest.mark.parametrize("word", ["title", "examples", "deprecated"])
def test_what_says_nothing_to_the_api_server_is_left_out(word: str) -> None:
    assert [path for path, node in ALL.items() if word in node] == []


def test_every_list_is_bounded() -> None:
    lists = {path: node for path, node in ALL.items() if node.get("type") == "array"}
    assert lists
    assert [path for path, node in lists.items() if "maxItems" not in node] == []


def test_every_map_is_bounded_except_the_pod_template() -> None:
    maps = {
        path
        for path, node in ALL.items()
        if node.get("type") == "object" and "properties" not in node
    }
    unbounded = {path for path in maps if "maxProperties" not in ALL[path]}
    assert unbounded == {".spec.prefill.podTemplate", ".spec.decode.podTemplate"}
    assert all(ALL[path][PRESERVE] is True for path in unbounded)


def test_only_the_pod_template_takes_unknown_fields() -> None:
    assert [path for path, node in ALL.items() if PRESERVE in node] == [
        ".spec.prefill.podTemplate",
        ".spec.decode.podTemplate",
    ]


def test_every_string_is_bounded() -> None:
    texts = {path: node for path, node in ALL.items() if node.get("type") == "string"}
    assert [p for p, node in texts.items() if not {"maxLength", "enum"} & node.keys()] == []


def test_every_number_outside_of_the_status_is_bounded() -> None:
    numbers = {
        path: node
        for path, node in ALL.items()
        if node.get("type") in ("integer", "number") and not path.startswith(".status")
    }
    assert numbers
    assert [p for p, node in numbers.items() if not {"minimum", "maximum"} <= node.keys()] == []


def test_every_field_is_described() -> None:
    fields = {path for path in ALL if path and not path.endswith(("[]", "[*]"))}
    assert [path for path in sorted(fields) if not ALL[path].get("description")] == []


def test_keys_of_list_maps_are_always_there() -> None:
    lists = {path: node for path, node in ALL.items() if LIST_KEYS in node}
    assert lists
    for path, node in lists.items():
        item = node["items"]
        for key in node[LIST_KEYS]:
            there = key in item["required"] or "default" in item["properties"][key]
            assert there, f"{path}: {key}"


def test_every_rule_has_a_message_that_ends_in_a_remedy() -> None:
    found = [rule for node in ALL.values() for rule in node.get(VALIDATIONS, ())]
    assert len(found) >= 8
    assert [rule["message"] for rule in found if not set(":;") & set(rule["message"])] == []
    assert all("\n" not in rule["rule"] for rule in found)


def defaulted(node: Json, value: Any) -> Any:
    """`value` as the API server stores it: each missing field takes its default."""
    if isinstance(value, dict) and "properties" in node:
        made = dict(value)
        for name, child in node["properties"].items():
            if name not in made and "default" in child:
                made[name] = copy.deepcopy(child["default"])
            if name in made:
                made[name] = defaulted(child, made[name])
        return made
    if isinstance(value, list):
        return [defaulted(node["items"], item) for item in value]
    return value


def without_empty_lists(value: Any) -> Any:
    """`value` without lists that hold nothing, which the API server does not store."""
    if not isinstance(value, dict):
        return value
    return {key: without_empty_lists(item) for key, item in value.items() if item != []}


@pytest.mark.parametrize("spec", [MINIMAL, FULL], ids=["minimal", "full"])
def test_the_api_server_fills_in_what_the_models_fill_in(spec: Json) -> None:
    stored = defaulted(schema()["properties"]["spec"], spec)
    read = Spec.model_validate(spec).model_dump(mode="json", by_alias=True, exclude_none=True)
    assert stored == without_empty_lists(read)


OF_EACH_KIND = pytest.mark.parametrize("resource", crd.RESOURCES, ids=lambda r: r.kind.kind)


@OF_EACH_KIND
def test_the_committed_file_is_what_the_models_give(resource: crd.CustomResource) -> None:
    assert (ROOT / "crds" / resource.file).read_text() == crd.render(resource)


@OF_EACH_KIND
def test_the_rendered_file_is_the_definition_without_anchors(resource: crd.CustomResource) -> None:
    text = crd.render(resource)
    assert yaml.safe_load(text) == crd.definition(resource)
    assert "&id" not in text


@pytest.mark.parametrize(
    ("resource", "short", "subresources"),
    [(crd.DEPLOYMENT, "pdd", {"status": {}}), (crd.REPORT, "pdr", None)],
)
def test_a_definition_serves_one_stored_version_under_a_short_name(
    resource: crd.CustomResource, short: str, subresources: Json | None
) -> None:
    spec = crd.definition(resource)["spec"]
    (version,) = spec["versions"]
    assert (version["served"], version["storage"]) == (True, True)
    assert version.get("subresources") == subresources
    assert spec["names"]["shortNames"] == [short]


@OF_EACH_KIND
def test_columns_point_at_fields_of_the_schema(resource: crd.CustomResource) -> None:
    (version,) = crd.definition(resource)["spec"]["versions"]
    paths = [column["jsonPath"] for column in version["additionalPrinterColumns"]]
    fields = dict(nodes(schema(resource)))
    assert [p for p in paths if "[" not in p and p not in fields and ".metadata." not in p] == []


def test_a_reports_column_names_its_deployment_by_the_label() -> None:
    column = crd.definition(crd.REPORT)["spec"]["versions"][0]["additionalPrinterColumns"][0]
    assert column["jsonPath"] == r".metadata.labels['moriio\.dev/deployment']"


class Recursive(BaseModel):
    child: Recursive | None = None


class Union(BaseModel):
    value: int | str


class Exclusive(BaseModel):
    value: int = Field(gt=0)


class Pair(BaseModel):
    value: tuple[int, str]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Recursive, r"\.child: Recursive contains itself"),
        (Union, r"\.value: a union of types has no structural form"),
        (Exclusive, r"\.value: 'exclusiveMinimum' has no structural form"),
        (Pair, r"\.value: 'prefixItems' has no structural form"),
    ],
)
def test_what_has_no_structural_form_is_refused_with_its_path(
    model: type[BaseModel], message: str
) -> None:
    with pytest.raises(crd.NotStructuralError, match=message):
        crd.structural(model.model_json_schema())


class Inner(BaseModel):
    """The model's words."""

    x: int = 1


class Outer(BaseModel):
    inner: Inner = Field(default_factory=Inner, description="The field's words.")
    other: Inner = Inner(x=2)
    kind: Literal["one"] = "one"
    free: int | None = None
    many: dict[str, Inner] = Field(default_factory=dict)


def test_structural_forms() -> None:
    made = crd.structural(Outer.model_json_schema())["properties"]
    assert made["inner"]["description"] == "The field's words."
    assert made["other"]["default"] == {}
    assert made["kind"]["enum"] == ["one"]
    assert made["free"] == {"type": "integer"}
    assert made["many"]["additionalProperties"]["properties"] == {
        "x": {"type": "integer", "default": 1}
    }

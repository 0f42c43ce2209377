"""Generate the structural CustomResourceDefinitions from the pydantic models.

The models are the only source: `make generate` writes what this gives to `crds/` and the chart,
and `make check` fails when the files differ. The walk turns pydantic's JSON schema into the subset
that Kubernetes calls structural, and rejects what has no structural form instead of guessing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml

from moriio_operator.api import names
from moriio_operator.api.deployment import PDDeployment
from moriio_operator.api.kinds import PDDEPLOYMENT, PDREPORT
from moriio_operator.api.report import PDReport
from moriio_operator.api.schema import ApiModel, JsonSchema
from moriio_operator.kube.kinds import Kind

# Keywords of JSON schema that the API server does not use.
_DROPPED = ("title", "examples", "deprecated", "readOnly", "$defs", "additionalProperties")
_KEPT = frozenset(
    {
        "type", "format", "description", "enum", "default", "minimum", "maximum", "minLength",
        "maxLength", "pattern", "minItems", "maxItems", "maxProperties", "required", "properties",
        "items", "nullable", "additionalProperties",
    }
)  # fmt: skip

HEADER = "# Generated from the models in operator/moriio_operator/api by `make generate`.\n"


class NotStructuralError(ValueError):
    """A model uses what a structural schema cannot say; the path names the field."""


def structural(model_schema: JsonSchema) -> JsonSchema:
    """Turn a pydantic JSON schema into a structural one."""
    return _walk(model_schema, model_schema.get("$defs", {}), (), "")


def _walk(
    schema: JsonSchema, defs: dict[str, JsonSchema], seen: tuple[str, ...], path: str
) -> JsonSchema:
    schema, seen = _inline(_without_null(schema, path), defs, seen, path)
    if "const" in schema:
        schema["enum"] = [schema.pop("const")]
    values = schema.get("additionalProperties")
    made = {key: value for key, value in schema.items() if key not in _DROPPED}
    for key in made:
        if key not in _KEPT and not key.startswith("x-kubernetes-"):
            raise NotStructuralError(f"{path or '.'}: {key!r} has no structural form")
    if isinstance(made.get("default"), dict):
        # A dumped default would freeze the nested defaults; `{}` lets the server fill them in.
        made["default"] = {}
    if "properties" in made:
        made["properties"] = {
            name: _walk(value, defs, seen, f"{path}.{name}")
            for name, value in made["properties"].items()
        }
    elif isinstance(values, dict):
        made["additionalProperties"] = _walk(values, defs, seen, f"{path}[*]")
    if "items" in made:
        made["items"] = _walk(made["items"], defs, seen, f"{path}[]")
    return made


def _without_null(schema: JsonSchema, path: str) -> JsonSchema:
    """Drop `null` from a union: an optional field is simply left out in Kubernetes."""
    if "anyOf" not in schema:
        return dict(schema)
    options = [option for option in schema["anyOf"] if option.get("type") != "null"]
    if len(options) != 1:
        raise NotStructuralError(f"{path}: a union of types has no structural form")
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    if rest.get("default", ...) is None:
        del rest["default"]
    return {**options[0], **rest}


def _inline(
    schema: JsonSchema, defs: dict[str, JsonSchema], seen: tuple[str, ...], path: str
) -> tuple[JsonSchema, tuple[str, ...]]:
    """Replace a reference by what it names; a field's own description wins over the model's."""
    reference = schema.pop("$ref", None)
    if reference is None:
        return schema, seen
    name = reference.rsplit("/", 1)[-1]
    if name in seen:
        raise NotStructuralError(f"{path}: {name} contains itself")
    return {**defs[name], **schema}, (*seen, name)


def _column(name: str, path: str, description: str, kind: str = "string") -> JsonSchema:
    return {"name": name, "type": kind, "jsonPath": path, "description": description}


_READY = ".status.conditions[?(@.type=='Ready')].status"
_CREATED = ".metadata.creationTimestamp"
_LABEL = names.LABEL_DEPLOYMENT.replace(".", r"\.")


@dataclass(frozen=True, slots=True)
class CustomResource:
    """One of our kinds: its model, and how kubectl shows it."""

    kind: Kind
    model: type[ApiModel]
    short_name: str
    categories: tuple[str, ...]
    columns: tuple[JsonSchema, ...]
    # Whether it has a status subresource.
    has_status: bool

    @property
    def name(self) -> str:
        """Name of the CustomResourceDefinition."""
        return f"{self.kind.plural}.{self.kind.group}"

    @property
    def file(self) -> str:
        """Name of its file."""
        return f"{self.kind.group}_{self.kind.plural}.yaml"


DEPLOYMENT = CustomResource(
    PDDEPLOYMENT,
    PDDeployment,
    "pdd",
    ("all", "moriio"),
    (
        _column("Ready", _READY, "Whether requests are served now."),
        _column("Mode", ".spec.connector.mode", "Which side moves the KV cache."),
        _column("Prefill", ".status.summary.prefill", "Ready and desired prefill engines."),
        _column("Decode", ".status.summary.decode", "Ready and desired decode engines."),
        _column("Age", _CREATED, "Time since creation.", "date"),
        _column("Reason", ".status.summary.reason", "Why the deployment is not ready."),
    ),
    has_status=True,
)
REPORT = CustomResource(
    PDREPORT,
    PDReport,
    "pdr",
    # Not in `all`: usually only the operator reads it.
    ("moriio",),
    (
        _column(
            "Deployment",
            f".metadata.labels['{_LABEL}']",
            "The PDDeployment that the report is about.",
        ),
        _column("Renewed", ".renewTime", "Time since the last write.", "date"),
        _column("Age", _CREATED, "Time since creation.", "date"),
    ),
    has_status=False,
)
RESOURCES = (DEPLOYMENT, REPORT)


def definition(resource: CustomResource) -> dict[str, Any]:
    """Give the CustomResourceDefinition of a kind."""
    kind = resource.kind
    schema = structural(resource.model.model_json_schema(by_alias=True))
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.name},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": {
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": kind.plural,
                "singular": kind.kind.lower(),
                "shortNames": [resource.short_name],
                "categories": list(resource.categories),
            },
            "versions": [
                {
                    "name": kind.version,
                    "served": True,
                    "storage": True,
                    **({"subresources": {"status": {}}} if resource.has_status else {}),
                    "additionalPrinterColumns": list(resource.columns),
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


class _Dumper(yaml.SafeDumper):
    """A dumper without anchors, which the API machinery and reviewers alike dislike."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        """Write every value out."""
        return True


def render(resource: CustomResource) -> str:
    """Give the text of a kind's file."""
    return HEADER + yaml.dump(definition(resource), Dumper=_Dumper, sort_keys=False, width=100)

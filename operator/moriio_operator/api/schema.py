"""The pieces that all API models share: camelCase aliases, bounded types and CEL rules.

Bounds are not decoration: without them the API server's cost estimate refuses the CEL rules.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel

JsonSchema: TypeAlias = dict[str, Any]

VALIDATIONS = "x-kubernetes-validations"


class ApiModel(BaseModel):
    """Base of the API models: frozen, camelCase on the wire.

    Unknown fields are ignored, not refused: the API server prunes or refuses them at the border
    (strict validation), and an older operator must survive the fields of a newer CRD.
    """

    model_config = ConfigDict(
        frozen=True, alias_generator=to_camel, populate_by_name=True, extra="ignore"
    )


def rule(expression: str, message: str, field_path: str | None = None) -> JsonSchema:
    """Make one CEL rule; the message names the field and the remedy, since users see only that."""
    made = {"rule": expression, "message": message}
    return made if field_path is None else {**made, "fieldPath": field_path}


def rules(*made: JsonSchema) -> JsonSchema:
    """Attach CEL rules to a model or field (`json_schema_extra`)."""
    return {VALIDATIONS: list(made)}


def with_rules(*made: JsonSchema) -> ConfigDict:
    """Model configuration that adds CEL rules to the model's schema."""
    return ConfigDict(json_schema_extra=rules(*made))


def list_map(*keys: str) -> JsonSchema:
    """Mark a list as a map by these keys, so that server-side apply merges by item."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


def free_object(schema: JsonSchema) -> None:
    """Mark an object whose inside is Kubernetes' own and is checked by the operator."""
    schema.pop("additionalProperties", None)
    schema["type"] = "object"
    schema["x-kubernetes-preserve-unknown-fields"] = True


Text253 = Annotated[str, StringConstraints(min_length=1, max_length=253)]
Text1024 = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
# What becomes an argument of its own must not look like a flag.
Positional253 = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=r"^[^-]")]
Positional1024 = Annotated[str, StringConstraints(min_length=1, max_length=1024, pattern=r"^[^-]")]
ObjectName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$"),
]
AbsolutePath = Annotated[
    str, StringConstraints(min_length=2, max_length=512, pattern=r"^/[^\x00]*$")
]
ResourceName = Annotated[
    str,
    StringConstraints(
        min_length=1, max_length=317, pattern=r"^[a-zA-Z0-9][-a-zA-Z0-9._/]*[a-zA-Z0-9]$"
    ),
]
QUANTITY_PATTERN = r"^[0-9]+(\.[0-9]+)?([eE][0-9]+|[numkMGTPE]|[KMGTPE]i)?$"
# Written as a whole number or as text: `cpu: 4` is what everybody writes.
Quantity = Annotated[
    str,
    BeforeValidator(lambda value: str(value) if isinstance(value, int) else value),
    StringConstraints(max_length=64, pattern=QUANTITY_PATTERN),
    WithJsonSchema(
        {"x-kubernetes-int-or-string": True, "maxLength": 64, "pattern": QUANTITY_PATTERN}
    ),
]
Seconds = Annotated[int, Field(ge=1, le=86_400)]

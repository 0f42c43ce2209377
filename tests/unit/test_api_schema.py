"""The bounded types take what Kubernetes takes, and read as users write."""

from __future__ import annotations

from typing import Any

import pytest
from moriio_operator.api.deployment import Owner
from moriio_operator.api.schema import AbsolutePath, ObjectName, Quantity, ResourceName, Seconds
from moriio_operator.facts.terms import Role
from pydantic import TypeAdapter, ValidationError

from unit.samples import resource, spec, spec_object

TYPES: dict[str, Any] = {
    "quantity": Quantity,
    "path": AbsolutePath,
    "name": ObjectName,
    "resource": ResourceName,
    "seconds": Seconds,
}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        *(("quantity", v) for v in ("0", "1", "0.5", "100m", "1Ki", "2Mi", "64Gi", "3k", "1e3")),
        ("path", "/srv"),
        ("path", "/srv/a b"),
        *(("name", v) for v in ("a", "a.b-c", "0")),
        *(("resource", v) for v in ("amd.com/gpu", "cpu", "rdma/hca_1")),
        *(("seconds", v) for v in (1, 86_400)),
    ],
)
def test_taken(kind: str, value: object) -> None:
    assert TypeAdapter(TYPES[kind]).validate_python(value) == value


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        *(("quantity", v) for v in ("", "x", "-1", "1 Gi", "1gb", "1ni", "1mi", "1ki", "9" * 65)),
        *(("path", v) for v in ("", "/", "srv", "/" + "a" * 512)),
        *(("name", v) for v in ("", "A", "-a", "a_b", "a" * 254)),
        *(("resource", v) for v in ("", "/gpu", "gpu/")),
        *(("seconds", v) for v in (0, -1, 86_401)),
    ],
)
def test_refused(kind: str, value: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(TYPES[kind]).validate_python(value)


@pytest.mark.parametrize("number", [0, 4, 10**9])
def test_a_quantity_may_be_written_as_a_whole_number(number: int) -> None:
    assert TypeAdapter(Quantity).validate_python(number) == str(number)


@pytest.mark.parametrize("odd", [True, 0.5, None, [], -1])
def test_other_values_are_no_quantities(odd: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Quantity).validate_python(odd)


@pytest.mark.parametrize("flag", ["-tp", "--headless", "-", ""])
@pytest.mark.parametrize("field", ["name", "servedName"])
def test_what_becomes_an_argument_of_its_own_does_not_look_like_a_flag(
    field: str, flag: str
) -> None:
    with pytest.raises(ValidationError, match=rf"model\.{field}"):
        spec({"model": {field: flag}})


def test_unknown_fields_are_ignored_so_that_an_older_operator_survives_a_newer_crd() -> None:
    assert spec({"somethingNew": {"x": 1}}) == spec()


def test_an_owner_is_read_from_a_live_object() -> None:
    owner = Owner.from_object(resource({"decode": {"replicas": 3}}, name="llm", generation=7))
    assert (owner.namespace, owner.name, owner.generation) == ("team", "llm", 7)
    assert owner.spec.role(Role.DECODE).replicas == 3
    assert owner.spec.role(Role.PREFILL).replicas == 1


def test_a_field_that_does_not_fit_is_named() -> None:
    broken = resource()
    broken["spec"]["prefill"]["replicas"] = 0
    with pytest.raises(ValidationError, match=r"prefill\.replicas"):
        Owner.from_object(broken)


def test_models_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        setattr(spec().engine, "image", "other")  # noqa: B010 - mypy knows it to be read-only


def test_a_spec_is_read_the_same_by_alias_and_by_name() -> None:
    by_name = spec_object()
    by_name["model"] = {"name": "org/model", "served_name": "model"}
    assert spec({}, by_name) == spec()

"""Kubernetes' strategic rules: named lists by name, maps by key, the rest replaced."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moriio_operator.build.merge import merged


@pytest.mark.parametrize(
    ("base", "patch", "result"),
    [
        ({}, {}, {}),
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": 1}, {"a": 2}, {"a": 2}),
        ({"a": {"x": 1}}, {"a": {"y": 2}}, {"a": {"x": 1, "y": 2}}),
        ({"a": 1}, {"a": {"y": 2}}, {"a": {"y": 2}}),
        (
            {"tolerations": [{"key": "a"}]},
            {"tolerations": [{"key": "b"}]},
            {"tolerations": [{"key": "b"}]},
        ),
        ({"args": ["a"]}, {"args": ["b"]}, {"args": ["b"]}),
        (
            {"containers": [{"name": "a", "image": "x"}]},
            {"containers": [{"name": "b"}, {"name": "a", "tty": True}]},
            {"containers": [{"name": "a", "image": "x", "tty": True}, {"name": "b"}]},
        ),
        (
            {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)"}]},
            {"env": [{"name": "A", "value": "2"}, {"name": "C", "value": "3"}]},
            {
                "env": [
                    {"name": "A", "value": "2"},
                    {"name": "B", "value": "$(A)"},
                    {"name": "C", "value": "3"},
                ]
            },
        ),
        (
            {"volumeMounts": [{"name": "a", "mountPath": "/a"}]},
            {"volumeMounts": [{"name": "a", "mountPath": "/b"}]},
            {"volumeMounts": [{"name": "a", "mountPath": "/a"}, {"name": "a", "mountPath": "/b"}]},
        ),
        (
            {"resources": {"limits": {"gpu": "1"}}},
            {"resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}},
            {"resources": {"limits": {"gpu": "1", "cpu": "2"}, "requests": {"cpu": "1"}}},
        ),
        # Not in the base: taken as it is, however odd.
        ({}, {"containers": [{"image": "x"}]}, {"containers": [{"image": "x"}]}),
        (
            {},
            {"topologySpreadConstraints": [{"topologyKey": "a"}, {"topologyKey": "a"}]},
            {"topologySpreadConstraints": [{"topologyKey": "a"}, {"topologyKey": "a"}]},
        ),
    ],
)
def test_rules(base: Any, patch: Any, result: Any) -> None:
    assert merged(base, patch) == result


NAMED = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("abc"), "value": st.integers(0, 3)}),
    unique_by=lambda item: item["name"],
)
TREES = st.fixed_dictionaries(
    {}, optional={"env": NAMED, "args": st.lists(st.integers()), "x": st.integers(), "y": NAMED}
)


@given(TREES, TREES)
def test_neither_side_is_changed(base: Any, patch: Any) -> None:
    before = copy.deepcopy((base, patch))
    merged(base, patch)
    assert (base, patch) == before


@given(TREES, TREES)
def test_laying_the_same_over_it_again_changes_nothing(base: Any, patch: Any) -> None:
    once = merged(base, patch)
    assert merged(once, patch) == once


@given(TREES)
def test_an_empty_patch_changes_nothing(base: Any) -> None:
    assert merged(base, {}) == base


@given(NAMED, NAMED)
def test_of_named_items_each_name_stands_once_and_the_patch_wins(base: Any, patch: Any) -> None:
    values = {item["name"]: item["value"] for item in merged({"env": base}, {"env": patch})["env"]}
    assert values == {i["name"]: i["value"] for i in base} | {i["name"]: i["value"] for i in patch}

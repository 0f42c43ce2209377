"""Every reason that the operator gives is a member of the enum, is given, and is explained."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from generate.conditions import EXPLANATIONS
from moriio_operator.api.reasons import TRUE_WHEN, Reason
from moriio_operator.api.status import ConditionType

PACKAGE = Path(__file__).parents[2] / "operator/moriio_operator"
MODULES = {path.relative_to(PACKAGE): ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py")}
# Where a reason stands in a call; by keyword it is `reason` everywhere.
POSITIONS = {"Problem": 0, "Verdict": 2, "EventRecord": 1, "Failure": 0, "LastFailure": 1}
# What names a reason besides its own table: kinds of conditions, states, words of the API server.
BELOW = ("api", "facts", "kube")


def made(name: str) -> Iterator[tuple[str, ast.Call]]:
    for path, module in MODULES.items():
        for node in ast.walk(module):
            called = isinstance(node, ast.Call) and getattr(node.func, "id", None) == name
            if called and isinstance(node, ast.Call):
                yield f"{path}:{node.lineno}", node


def reason_of(call: ast.Call, position: int) -> ast.expr:
    named = (keyword.value for keyword in call.keywords if keyword.arg == "reason")
    return next(named, None) or call.args[position]


def literals(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def members(tree: ast.AST) -> Iterator[Reason]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", None) == "Reason":
            yield Reason[node.attr]


@pytest.mark.parametrize("name", POSITIONS)
def test_no_reason_is_a_bare_string(name: str) -> None:
    found = {where: reason_of(call, POSITIONS[name]) for where, call in made(name)}
    assert found, "the search is blind"
    assert [where for where, reason in found.items() if isinstance(reason, ast.Constant)] == []


def test_no_reason_is_spelled_out_where_it_is_given() -> None:
    spelled = [
        f"{path}: {text}"
        for path, module in MODULES.items()
        if path.parts[0] not in BELOW
        for text in literals(module)
        if text in set(Reason)
    ]
    assert spelled == []


def test_every_reason_is_given_somewhere() -> None:
    given = {
        reason
        for path, module in MODULES.items()
        if path.parts[0] != "api"
        for reason in members(module)
    }
    assert set(Reason) - given == set()


def test_every_reason_has_a_cause_and_a_remedy() -> None:
    assert set(Reason) - {row.reason for row in EXPLANATIONS} == set()
    for row in EXPLANATIONS:
        assert row.cause.endswith("."), row
        assert row.remedy.endswith("."), row


def test_a_reason_is_explained_once_per_condition() -> None:
    explained = [(row.reason, kind) for row in EXPLANATIONS for kind in row.conditions or (None,)]
    assert len(explained) == len(set(explained))


def test_a_reason_is_given_with_the_status_that_its_explanation_has() -> None:
    differing = [
        f"{where}: {reason}"
        for where, call in made("Verdict")
        for reason in members(reason_of(call, POSITIONS["Verdict"]))
        if ast.literal_eval(call.args[1])
        not in {row.status for row in EXPLANATIONS if row.reason == reason}
    ]
    assert differing == []


def test_every_condition_says_when_it_is_true() -> None:
    assert list(TRUE_WHEN) == list(ConditionType)
    explained = {kind for row in EXPLANATIONS for kind in row.conditions}
    assert explained == set(ConditionType)

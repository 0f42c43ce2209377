"""Names of children fit what Kubernetes allows, and tell their parts apart."""

from __future__ import annotations

import re

import pytest
from moriio_operator.api import names
from moriio_operator.api.deployment import NAME_RULE
from moriio_operator.facts.terms import ROLES, Role

LONGEST = "x" * names.NAME_MAX_LENGTH
REVISION = "b" * names.REVISION_LENGTH
LABEL = 63


@pytest.mark.parametrize("role", ROLES)
def test_a_service_of_the_longest_name_is_one_label(role: Role) -> None:
    assert len(names.role_service(LONGEST, role, REVISION)) <= LABEL


@pytest.mark.parametrize("role", ROLES)
def test_an_engine_of_the_longest_name_is_one_label_for_a_trillion_ports(role: Role) -> None:
    assert len(names.engine_pod(LONGEST, role, 10**12)) <= LABEL


def test_the_router_of_the_longest_name_leaves_room_for_its_pods_labels() -> None:
    assert len(names.router(LONGEST, REVISION)) <= LABEL


def test_names_are_what_selectors_and_dashboards_expect() -> None:
    assert names.engine_pod("llm", Role.DECODE, 42) == "llm-decode-42"
    assert names.role_service("llm", Role.PREFILL, "bcdf2456") == "llm-prefill-bcdf2456"
    assert names.router("llm", "bcdf2456") == "llm-router-bcdf2456"
    assert names.router_account("llm") == "llm-router"
    assert names.base_labels("llm") == {
        "app.kubernetes.io/managed-by": "moriio-operator",
        "moriio.dev/deployment": "llm",
    }


def test_the_rule_of_names_holds_the_same_bound() -> None:
    assert f"size() <= {names.NAME_MAX_LENGTH}" in NAME_RULE["rule"]
    assert f"at most {names.NAME_MAX_LENGTH} characters" in NAME_RULE["message"]


@pytest.mark.parametrize(
    ("name", "fits"),
    [("llm", True), ("a", True), ("a-1", True), ("1a", False), ("a.b", False), ("a-", False)],
)
def test_the_rule_of_names_takes_what_a_service_may_be_called(name: str, *, fits: bool) -> None:
    pattern = re.search(r"matches\('(.*)'\)", NAME_RULE["rule"])
    assert pattern is not None
    assert bool(re.fullmatch(pattern[1], name)) is fits

"""Permissions that the chart grants: to the operator, its registrars, its test pod, and users."""

from __future__ import annotations

import pytest
from moriio_operator.api.kinds import PDDEPLOYMENT, PDREPORT
from moriio_operator.kube import kinds

from chart.rendering import (
    SETS,
    Object,
    Render,
    bound_to,
    given,
    names_of,
    of_kind,
    one,
    rights_of,
    rights_on,
    settings_of,
    values_file,
)

NAMESPACED = values_file("namespaced.yaml")


def _wanted_of_the_operator(role_kind: str) -> set[tuple[str, str, str]]:
    wanted = (
        rights_on(PDDEPLOYMENT, "get", "list", "watch")
        | rights_on(PDDEPLOYMENT, "patch", subresource="/status")
        | rights_on(PDDEPLOYMENT, "update", subresource="/finalizers")
        | rights_on(PDREPORT, "list", "watch")
        | rights_on(kinds.POD, "list", "watch", "create", "delete")
        | rights_on(kinds.POD, "get", subresource="/log")
        | rights_on(kinds.EVENT, "create")
        # What a revision was rendered to is kept, and never changed.
        | rights_on(kinds.CONTROLLER_REVISION, "get", "list", "watch", "create", "patch", "delete")
        | {("rbac.authorization.k8s.io", f"{role_kind.lower()}s", "bind")}
    )
    for kind in (kinds.SERVICE, kinds.SERVICE_ACCOUNT, kinds.ROLE_BINDING, kinds.DEPLOYMENT):
        wanted |= rights_on(kind, "get", "list", "watch", "create", "patch", "delete")
    return wanted


def test_the_operator_may_do_what_its_code_does_and_nothing_else(render: Render) -> None:
    role = one(render(), "ClusterRole", "demo-moriio-operator")

    assert rights_of(role) == _wanted_of_the_operator("ClusterRole")


def test_in_a_namespace_of_its_list_the_operator_may_do_the_same(render: Render) -> None:
    roles = of_kind(render(values_file("namespaced.yaml")), "Role")
    own = [role for role in roles if role["metadata"]["name"] == "demo-moriio-operator"]

    assert [role["metadata"]["namespace"] for role in own] == ["inference", "staging"]
    for role in own:
        assert rights_of(role) == _wanted_of_the_operator("Role")


@pytest.mark.parametrize(("options", "kind"), [((), "ClusterRole"), ((NAMESPACED,), "Role")])
def test_the_only_role_that_the_operator_may_hand_out_is_the_registrars(
    render: Render, options: tuple[str, ...], kind: str
) -> None:
    objects = render(*options)
    settings = settings_of(objects)
    rules = [
        rule
        for binding in bound_to(objects, "demo-moriio-operator")
        for role in of_kind(objects, binding["roleRef"]["kind"])
        if role["metadata"]["name"] == binding["roleRef"]["name"]
        for rule in role["rules"]
        if "bind" in rule["verbs"]
    ]

    assert settings.registrar_role.kind == kind
    assert rules
    for rule in rules:
        assert rule["resources"] == [f"{kind.lower()}s"]
        assert rule["resourceNames"] == [settings.registrar_role.name]


@pytest.mark.parametrize("options", [(), (NAMESPACED,)])
def test_in_its_own_namespace_the_operator_holds_one_lease(
    render: Render, options: tuple[str, ...]
) -> None:
    objects = render(*options)
    role = one(objects, "Role", "demo-moriio-operator-lease")
    create, hold = role["rules"]

    assert role["metadata"]["namespace"] == "moriio-system"
    assert (create["verbs"], "resourceNames" in create) == (["create"], False)
    assert hold["verbs"] == ["get", "update"]
    assert hold["resourceNames"] == [settings_of(objects).leader_election.lease_name]
    assert rights_of(role) == rights_on(kinds.LEASE, "get", "create", "update")


def test_with_namespaces_the_operator_has_rights_only_there(render: Render) -> None:
    objects = render(NAMESPACED)
    bindings = bound_to(objects, "demo-moriio-operator")

    assert [(b["kind"], b["metadata"]["namespace"]) for b in bindings] == [
        ("RoleBinding", "inference"),
        ("RoleBinding", "staging"),
        ("RoleBinding", "moriio-system"),
    ]
    assert {binding["roleRef"]["kind"] for binding in bindings} == {"Role"}
    assert settings_of(objects).namespaces == ["inference", "staging"]
    for binding in bindings:
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "name": "demo-moriio-operator", "namespace": "moriio-system"}
        ]


@pytest.mark.parametrize("name", ["namespaced.yaml", "no-cluster-rights.yaml"])
def test_with_namespaces_no_cluster_right_is_the_operators(render: Render, name: str) -> None:
    objects = render(values_file(name))

    assert of_kind(objects, "ClusterRoleBinding") == []
    # What is left is for users, by aggregation: nobody binds it to the operator.
    for role in of_kind(objects, "ClusterRole"):
        assert role["metadata"]["name"].endswith(("-view", "-admin"))


def test_an_admin_of_namespaces_alone_can_install(render: Render) -> None:
    for obj in render(values_file("no-cluster-rights.yaml")):
        assert "namespace" in obj["metadata"], obj["kind"]


def test_users_who_view_may_read_and_users_who_administer_may_write(render: Render) -> None:
    objects = render()
    view = one(objects, "ClusterRole", "demo-moriio-operator-view")
    admin = one(objects, "ClusterRole", "demo-moriio-operator-admin")

    assert _aggregates(view) == {"view"}
    assert _aggregates(admin) == {"admin"}
    reads = ("get", "list", "watch")
    assert rights_of(view) == (
        rights_on(PDDEPLOYMENT, *reads)
        | rights_on(PDDEPLOYMENT, *reads, subresource="/status")
        | rights_on(PDREPORT, *reads)
    )
    assert rights_of(admin) == rights_on(
        PDDEPLOYMENT, "create", "update", "patch", "delete", "deletecollection"
    )


def _aggregates(role: Object) -> set[str]:
    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    labels: dict[str, str] = role["metadata"]["labels"]
    return {key.removeprefix(prefix) for key in labels if key.startswith(prefix)}


@pytest.mark.parametrize("options", [(), *((values_file(name),) for name in SETS)])
def test_no_right_reaches_those_who_edit(render: Render, options: tuple[str, ...]) -> None:
    for role in of_kind(render(*options), "ClusterRole"):
        assert "edit" not in _aggregates(role)


def test_users_get_no_right_when_told(render: Render) -> None:
    objects = render(*given("rbac.aggregate=false"))

    assert names_of(objects, "ClusterRole") == {
        "demo-moriio-operator",
        "demo-moriio-operator-registrar",
    }


def test_the_test_pod_may_create_a_pddeployment_and_nothing_else(render: Render) -> None:
    objects = render()
    pod = one(objects, "Pod")
    (binding,) = bound_to(objects, pod["spec"]["serviceAccountName"])
    role = one(objects, "Role", binding["roleRef"]["name"])

    assert rights_of(role) == rights_on(PDDEPLOYMENT, "create")
    assert {o["metadata"]["namespace"] for o in (pod, binding, role)} == {"moriio-system"}

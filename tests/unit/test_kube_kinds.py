"""Paths of kinds are those of the API, and every kind that is built is known."""

from __future__ import annotations

import pytest
from moriio_operator.api.kinds import PDDEPLOYMENT
from moriio_operator.kube import kinds
from moriio_operator.kube.kinds import Kind, kind_of


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (kinds.POD, "/api/v1/namespaces/n/pods/x"),
        (kinds.SERVICE, "/api/v1/namespaces/n/services/x"),
        (kinds.SERVICE_ACCOUNT, "/api/v1/namespaces/n/serviceaccounts/x"),
        (kinds.DEPLOYMENT, "/apis/apps/v1/namespaces/n/deployments/x"),
        (
            kinds.ROLE_BINDING,
            "/apis/rbac.authorization.k8s.io/v1/namespaces/n/rolebindings/x",
        ),
        (kinds.ENDPOINT_SLICE, "/apis/discovery.k8s.io/v1/namespaces/n/endpointslices/x"),
        (kinds.EVENT, "/apis/events.k8s.io/v1/namespaces/n/events/x"),
        (PDDEPLOYMENT, "/apis/moriio.dev/v1alpha1/namespaces/n/pddeployments/x"),
    ],
)
def test_paths(kind: Kind, path: str) -> None:
    assert kind.path("n", "x") == path
    assert kind.path("n", "x", "status") == f"{path}/status"
    assert kind.path("n") == path.removesuffix("/x")
    assert kind.path(None) == path.removesuffix("/x").replace("/namespaces/n", "")


@pytest.mark.parametrize(
    ("kind", "group", "version"),
    [(kinds.POD, "", "v1"), (kinds.DEPLOYMENT, "apps", "v1")],
)
def test_group_and_version(kind: Kind, group: str, version: str) -> None:
    assert (kind.group, kind.version) == (group, version)


ALL = [kind for kind in (*vars(kinds).values(), PDDEPLOYMENT) if isinstance(kind, Kind)]


@pytest.mark.parametrize("kind", [*ALL, Kind("NetworkPolicy", "networkpolicies", "x/v1")], ids=str)
def test_the_kind_of_an_object_is_guessed_as_kubernetes_does(kind: Kind) -> None:
    assert kind_of({"apiVersion": kind.api_version, "kind": kind.kind}) == kind
    assert len(ALL) > 8


def test_a_kind_whose_name_ends_in_s_has_another_plural() -> None:
    assert kind_of({"apiVersion": "x/v1", "kind": "IngressClass"}).plural == "ingressclasses"

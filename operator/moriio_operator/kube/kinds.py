"""The kinds that the operator touches, as a static table: no discovery, no cache to go stale."""

from __future__ import annotations

from dataclasses import dataclass

from moriio_operator.kube.objects import Object


@dataclass(frozen=True, slots=True)
class Kind:
    """Where the API serves a kind."""

    kind: str
    plural: str
    api_version: str = "v1"

    @property
    def group(self) -> str:
        """The API group; empty for core."""
        return self.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        """The version inside the group."""
        return self.api_version.rpartition("/")[2]

    def path(
        self, namespace: str | None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """Give the URL path; without a namespace it spans all of them."""
        root = "/api/v1" if self.api_version == "v1" else f"/apis/{self.api_version}"
        scope = f"/namespaces/{namespace}" if namespace else ""
        rest = "".join(f"/{part}" for part in (name, subresource) if part)
        return f"{root}{scope}/{self.plural}{rest}"


POD = Kind("Pod", "pods")
SERVICE = Kind("Service", "services")
SERVICE_ACCOUNT = Kind("ServiceAccount", "serviceaccounts")
ROLE_BINDING = Kind("RoleBinding", "rolebindings", "rbac.authorization.k8s.io/v1")
DEPLOYMENT = Kind("Deployment", "deployments", "apps/v1")
ENDPOINT_SLICE = Kind("EndpointSlice", "endpointslices", "discovery.k8s.io/v1")
CONTROLLER_REVISION = Kind("ControllerRevision", "controllerrevisions", "apps/v1")
EVENT = Kind("Event", "events", "events.k8s.io/v1")
LEASE = Kind("Lease", "leases", "coordination.k8s.io/v1")


def kind_of(obj: Object) -> Kind:
    """Give the kind of an object, its plural as Kubernetes itself guesses it.

    Source: apimachinery, `meta.UnsafeGuessKindToResource`; every kind of ours follows it.
    """
    kind = obj["kind"]
    singular = kind.lower()
    if singular.endswith("s"):
        plural = f"{singular}es"
    elif singular.endswith("y"):
        plural = f"{singular[:-1]}ies"
    else:
        plural = f"{singular}s"
    return Kind(kind, plural, obj["apiVersion"])

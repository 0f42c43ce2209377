"""Everything in a namespace that the operator may write, and its versions."""

from __future__ import annotations

from bed.cluster import Bed
from moriio_operator.api.kinds import OWNED, PDDEPLOYMENT

_KINDS = ",".join(
    f"{kind.plural}.{kind.version}.{kind.group}" if kind.group else kind.plural
    for kind in (*OWNED, PDDEPLOYMENT)
)
# Made for our objects by others: Services and Deployments are expected to take them along.
_DERIVED = "endpointslices.discovery.k8s.io,replicasets.apps"


def inventory(bed: Bed, namespace: str) -> dict[str, str]:
    """Give `kind/name` -> resourceVersion of all that is there."""
    found = bed.kubectl_json("-n", namespace, "get", f"{_KINDS},{_DERIVED}")
    return {
        f"{item['kind']}/{item['metadata']['name']}": item["metadata"]["resourceVersion"]
        for item in found["items"]
    }

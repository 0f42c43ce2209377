"""The kinds of ours, and which kinds a PDDeployment owns."""

from __future__ import annotations

from moriio_operator.api import names
from moriio_operator.kube import kinds
from moriio_operator.kube.kinds import Kind

PDDEPLOYMENT = Kind(names.KIND, names.PLURAL, names.API_VERSION)

# Kinds that a PDDeployment owns, besides its engine pods.
CHILDREN = (
    kinds.CONTROLLER_REVISION,
    kinds.SERVICE,
    kinds.SERVICE_ACCOUNT,
    kinds.ROLE_BINDING,
    kinds.DEPLOYMENT,
)
OWNED = (kinds.POD, *CHILDREN)

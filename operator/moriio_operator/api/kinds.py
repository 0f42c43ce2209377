"""The kinds of ours, and which kinds a PDDeployment owns or is reported by."""

from __future__ import annotations

from moriio_operator.api import names
from moriio_operator.kube import kinds
from moriio_operator.kube.kinds import Kind

PDDEPLOYMENT = Kind(names.KIND, names.PLURAL, names.API_VERSION)
PDREPORT = Kind(names.REPORT_KIND, names.REPORT_PLURAL, names.API_VERSION)

# Kinds that a PDDeployment owns, besides its engine pods.
CHILDREN = (
    kinds.CONTROLLER_REVISION,
    kinds.SERVICE,
    kinds.SERVICE_ACCOUNT,
    kinds.ROLE_BINDING,
    kinds.DEPLOYMENT,
)
OWNED = (kinds.POD, *CHILDREN)

# Kinds that are known from reading them once, until an event puts that in doubt. A report belongs
# to the pod that writes it; its label says which PDDeployment it concerns.
CACHED = (*CHILDREN, PDREPORT)
# Kinds that are watched besides the PDDeployment itself.
WATCHED = (*OWNED, PDREPORT)

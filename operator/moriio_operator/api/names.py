"""Names that other programs see: the API group, labels, annotations and child names.

They stand in one place because they are a contract: selectors in live Services, a user's
NetworkPolicies and dashboards all refer to them, and a change orphans what runs.
"""

from __future__ import annotations

from moriio_operator.facts.terms import Role

GROUP = "moriio.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "PDDeployment"
PLURAL = "pddeployments"
REPORT_KIND = "PDReport"
REPORT_PLURAL = "pdreports"

FIELD_MANAGER = "moriio-operator"
STATUS_MANAGER = "moriio-operator-status"
REGISTRAR_MANAGER = "moriio-registrar"

LABEL_DEPLOYMENT = f"{GROUP}/deployment"
LABEL_REVISION = f"{GROUP}/revision"
LABEL_ROLE = f"{GROUP}/role"
LABEL_COMPONENT = f"{GROUP}/component"
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGED_BY = "moriio-operator"

ANNOTATION_APPLIED = f"{GROUP}/applied"
# The port block of an engine pod, as `20000-20003`.
ANNOTATION_PORTS = f"{GROUP}/ports"

COMPONENT_ENGINE = "engine"
COMPONENT_ROUTER = "router"

CONTAINER_ENGINE = "engine"
CONTAINER_ROUTER = "router"
CONTAINER_REGISTRAR = "registrar"
CONTAINER_PREFLIGHT = "preflight"
# `sentinel` is the name of a container to come; a user's sidecar must not take it before.
RESERVED_CONTAINERS = (
    CONTAINER_ENGINE,
    CONTAINER_ROUTER,
    CONTAINER_REGISTRAR,
    CONTAINER_PREFLIGHT,
    "sentinel",
)

# Label selectors of all that the operator made, and of the engines among it.
OWNED_SELECTOR = f"{LABEL_MANAGED_BY}={MANAGED_BY}"
ENGINES_SELECTOR = f"{OWNED_SELECTOR},{LABEL_COMPONENT}={COMPONENT_ENGINE}"

# Where the model cache is mounted in an engine container, and what an absolute model path is under.
CACHE_MOUNT = "/models"

# Environment variables by which secrets reach programs, and never by arguments: the hub's token,
# the key that an engine asks for, and the key that the router sends.
HUB_TOKEN = "HF_TOKEN"  # noqa: S105 - a name, no secret
ENGINE_API_KEY = "VLLM_API_KEY"
ROUTER_API_KEY = "OPENAI_API_KEY"

# Names of Services of which Kubernetes makes a variable that vLLM reads as a number of a port.
VLLM_SERVICES = (
    "vllm",
    "vllm-dp-master",
    "vllm-ec-side-channel",
    "vllm-mooncake-bootstrap",
    "vllm-nixl-side-channel",
    "vllm-p2p-side-channel",
)

REVISION_LENGTH = 8
# The longest child name that must be one DNS label (63 characters) is a headless Service,
# `<name>-prefill-<revision>`; an engine pod, `<name>-prefill-<cursor>`, leaves the cursor as many
# digits as any cluster will use. 40 satisfies both.
NAME_MAX_LENGTH = 40


def engine_pod(name: str, role: Role, cursor: int) -> str:
    """Name an engine incarnation; the cursor never repeats, so a repeated create meets its twin."""
    return f"{name}-{role}-{cursor}"


def role_service(name: str, role: Role, revision: str) -> str:
    """Name the headless Service whose EndpointSlices the registrar watches."""
    return f"{name}-{role}-{revision}"


def router(name: str, revision: str) -> str:
    """Name the router Deployment of a revision."""
    return f"{name}-router-{revision}"


def engine_templates(name: str, revision: str) -> str:
    """Name the ControllerRevision that keeps what a revision's engines are made from."""
    return f"{name}-{revision}"


def router_template(name: str, router_revision: str) -> str:
    """Name the ControllerRevision that keeps what the routers are made from."""
    return f"{name}-router-{router_revision}"


def router_account(name: str) -> str:
    """Name the registrar's ServiceAccount and its RoleBinding."""
    return f"{name}-router"


def base_labels(name: str) -> dict[str, str]:
    """Labels of every child, by which the operator lists what it owns."""
    return {LABEL_MANAGED_BY: MANAGED_BY, LABEL_DEPLOYMENT: name}

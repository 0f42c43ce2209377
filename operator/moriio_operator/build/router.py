"""The router Deployment of a revision: vllm-router, and the registrar that feeds it.

The registrar is a native sidecar: it beats on while the router drains, since the kubelet stops it
only after the router has ended.
"""

from __future__ import annotations

from collections.abc import Iterator

from moriio_operator.api import names
from moriio_operator.api.deployment import Owner, Router
from moriio_operator.build import credentials
from moriio_operator.build.metadata import metadata, router_labels
from moriio_operator.build.pod import RESTRICTED, ContainerPatch, Contribution, Json, assemble
from moriio_operator.facts import router
from moriio_operator.facts.terms import ROLES, ConnectorType, Role
from moriio_operator.stack import table as stacks
from moriio_operator.stack.stack import Stack

REGISTRAR_PORT = 8081

# New connections still come while the endpoint's removal travels through the cluster.
_DRAIN_S = 5
_TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a path, no secret
_TOKEN_LIFETIME_S = 3607  # the API server's own default for projected tokens


def router_deployment(owner: Owner, revision: str, template: Json) -> Json:
    """Build the router Deployment over a rendered pod template."""
    labels = {**names.base_labels(owner.name), **router_labels(revision)}
    selector = {key: labels[key] for key in sorted(labels) if key != names.LABEL_MANAGED_BY}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(
            owner, names.router(owner.name, revision), labels=router_labels(revision)
        ),
        "spec": {
            "replicas": owner.spec.router.replicas,
            "selector": {"matchLabels": selector},
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
            },
            "template": template,
        },
    }


def router_template(owner: Owner, revision: str, registrar_image: str) -> Json:
    """Build the template of router pods."""
    return assemble(names.CONTAINER_ROUTER, _contributions(owner, revision, registrar_image))


def _contributions(owner: Owner, revision: str, image: str) -> Iterator[Contribution]:
    spec = owner.spec
    stack, key = stacks.of(spec), spec.engine.api_key_secret_key_ref
    yield _pod(owner, revision)
    if stack.needs_registrar:
        yield Contribution("registrar", init_containers=[_registrar(owner, revision, image)])
    yield _router(spec.router, stack)
    yield _lifecycle()
    yield credentials.variables({} if key is None else {names.ROUTER_API_KEY: key})
    yield _resources(spec.router)
    if stack.needs_registrar:
        yield Contribution("registrar", volumes=[{"name": "token", "projected": _token()}])
    yield credentials.pull_secrets(spec.engine)


def _pod(owner: Owner, revision: str) -> Contribution:
    drain_s = _DRAIN_S + owner.spec.router.request_timeout_seconds + _DRAIN_S
    return Contribution(
        "pod",
        labels={**names.base_labels(owner.name), **router_labels(revision)},
        annotations={"kubectl.kubernetes.io/default-container": names.CONTAINER_ROUTER},
        fields={
            "serviceAccountName": names.router_account(owner.name),
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": drain_s,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "runAsGroup": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
        },
    )


def _router(settings: Router, stack: Stack) -> Contribution:
    return Contribution(
        "router",
        main=ContainerPatch(
            fields={"image": settings.image},
            args=router.arguments(
                settings.policy, settings.request_timeout_seconds, stack.router_arguments()
            ),
            ports=[
                {"name": "http", "containerPort": router.HTTP_PORT, "protocol": "TCP"},
                {"name": "metrics", "containerPort": router.METRICS_PORT, "protocol": "TCP"},
            ],
        ),
    )


def _lifecycle() -> Contribution:
    """Say how the router is judged, and how it stops."""
    liveness = {"httpGet": {"path": router.LIVENESS_PATH, "port": "http"}}
    fields = {
        "securityContext": RESTRICTED,
        "lifecycle": {"preStop": {"sleep": {"seconds": _DRAIN_S}}},
        "startupProbe": {
            **liveness, "periodSeconds": 1, "timeoutSeconds": 2, "failureThreshold": 60,
        },
        "livenessProbe": {
            **liveness, "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 3,
        },
        "readinessProbe": {
            "httpGet": {"path": router.READINESS_PATH, "port": "http"},
            "periodSeconds": 2,
            "timeoutSeconds": 2,
            "failureThreshold": 3,
        },
    }  # fmt: skip
    return Contribution("lifecycle", main=ContainerPatch(fields=fields))


def _resources(settings: Router) -> Contribution:
    if settings.resources is None:
        return Contribution("resources")
    # An empty map would come back as none, and look like a foreign edit for ever.
    given = settings.resources.model_dump(exclude_none=True)
    amounts = {kind: by_name for kind, by_name in given.items() if by_name}
    return Contribution("resources", main=ContainerPatch(fields={"resources": amounts}))


def _registrar(owner: Owner, revision: str, image: str) -> Json:
    arguments = [
        "registrar",
        "--mode", owner.spec.connector.mode.value,
        "--router", router.REGISTRATION,
        "--port", str(REGISTRAR_PORT),
        "--deployment", owner.name,
    ]  # fmt: skip
    for role in ROLES:
        parallelism = owner.spec.role(role).parallelism
        arguments += [f"--{role}", names.role_service(owner.name, Role(role), revision)]
        arguments += [
            f"--{role}-tensor",
            str(parallelism.tensor),
            f"--{role}-data",
            str(parallelism.data_local),
        ]
    connector = owner.spec.connector.type
    if connector != ConnectorType.MORIIO:
        arguments += ["--connector", connector]
    health = {"timeoutSeconds": 5, "periodSeconds": 2}
    return {
        "name": names.CONTAINER_REGISTRAR,
        "image": image,
        "restartPolicy": "Always",
        "args": arguments,
        "env": [_field(f"POD_{field.upper()}", field) for field in ("namespace", "name", "uid")],
        "ports": [{"name": "registrar", "containerPort": REGISTRAR_PORT, "protocol": "TCP"}],
        "securityContext": RESTRICTED,
        # Four times what it takes with hundreds of engines, whatever those may answer.
        "resources": {
            "requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"},
        },
        "volumeMounts": [{"name": "token", "mountPath": _TOKEN_PATH, "readOnly": True}],
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": "registrar"}, **health, "failureThreshold": 3,
        },
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": "registrar"}, **health,
            "periodSeconds": 10, "failureThreshold": 6,
        },
    }  # fmt: skip


def _field(name: str, field: str) -> Json:
    """A variable that holds a field of the pod's metadata."""
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.{field}"}}
    return {"name": name, "valueFrom": source}


def _token() -> Json:
    """The registrar's credentials, mounted into its container alone."""
    return {
        "sources": [
            {"serviceAccountToken": {"path": "token", "expirationSeconds": _TOKEN_LIFETIME_S}},
            {
                "configMap": {
                    "name": "kube-root-ca.crt",
                    "items": [{"key": "ca.crt", "path": "ca.crt"}],
                }
            },
        ]
    }

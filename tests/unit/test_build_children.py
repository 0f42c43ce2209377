"""Services, rights and routers of a revision: how they find each other, what they may not do."""

from __future__ import annotations

import pytest
from moriio_operator.api import names
from moriio_operator.api.kinds import CHILDREN
from moriio_operator.build.services import endpoint
from moriio_operator.facts.terms import ROLES, Role
from moriio_operator.kube.kinds import kind_of
from moriio_operator.stack.vllm_moriio.ports import layout

from unit.samples import (
    FULL,
    MINIMAL,
    REVISION,
    UID,
    Json,
    children_of,
    engine_pod,
    laid_over,
    owner,
)

BOTH = pytest.mark.parametrize("base", [MINIMAL, FULL], ids=["minimal", "full"])


def built(base: Json = MINIMAL, name: str = "llm") -> dict[str, Json]:
    made = children_of(owner({}, base=base, name=name))
    return {f"{child['kind']} {child['metadata']['name']}": child for child in made}


def service(role: Role, base: Json = MINIMAL) -> Json:
    return built(base)[f"Service llm-{role}-{REVISION}"]


def router(base: Json = MINIMAL) -> Json:
    pod: Json = built(base)[f"Deployment llm-router-{REVISION}"]["spec"]["template"]
    return pod


def containers(base: Json = MINIMAL) -> dict[str, Json]:
    spec = router(base)["spec"]
    return {c["name"]: c for c in [*spec["initContainers"], *spec["containers"]]}


def flag(container: Json, name: str) -> str:
    return str(container["args"][container["args"].index(name) + 1])


@BOTH
def test_templates_come_first_and_a_router_finds_its_services_and_rights_ready(base: Json) -> None:
    kinds = [key.split()[0] for key in built(base)]
    assert kinds == [
        *["ControllerRevision"] * 2,
        "Service",
        "ServiceAccount",
        "RoleBinding",
        *["Service"] * 2,
        "Deployment",
    ]


@BOTH
def test_every_child_is_labelled_owned_and_of_a_kind_that_is_pruned(base: Json) -> None:
    for child in built(base).values():
        metadata = child["metadata"]
        assert metadata["labels"].items() >= names.base_labels("llm").items()
        assert [ref["uid"] for ref in metadata["ownerReferences"]] == [UID]
        assert kind_of(child) in CHILDREN
        assert metadata["namespace"] == "team"


@BOTH
@pytest.mark.parametrize("role", ROLES)
def test_a_roles_service_selects_its_engines_and_no_others(base: Json, role: Role) -> None:
    selector = service(role, base)["spec"]["selector"]
    for other in ROLES:
        for revision in (REVISION, "otherrev"):
            pod = engine_pod(owner({}, base=base), "llm-x-0", other, revision, 20_000)
            chosen = selector.items() <= pod["metadata"]["labels"].items()
            assert chosen == (other is role and revision == REVISION)


@BOTH
@pytest.mark.parametrize("role", ROLES)
def test_a_roles_service_carries_every_port_of_its_engines_by_name(base: Json, role: Role) -> None:
    spec = service(role, base)["spec"]
    ranks = owner({}, base=base).spec.role(role).parallelism.tensor
    wanted = set(layout(ranks))
    assert {port["name"] for port in spec["ports"]} == wanted
    assert all(port["targetPort"] == port["name"] for port in spec["ports"])
    assert len({port["port"] for port in spec["ports"]}) == len(wanted)


@pytest.mark.parametrize("role", ROLES)
def test_a_roles_service_is_headless_and_shows_engines_that_are_not_ready(role: Role) -> None:
    spec = service(role)["spec"]
    assert (spec["clusterIP"], spec["publishNotReadyAddresses"]) == ("None", True)


@BOTH
def test_the_client_service_selects_the_routers_of_the_revision(base: Json) -> None:
    selector = built(base)["Service llm"]["spec"]["selector"]
    assert selector.items() <= router(base)["metadata"]["labels"].items()
    assert selector[names.LABEL_REVISION] == REVISION


def test_the_client_service_leads_to_the_routers_http_port() -> None:
    (port,) = built()["Service llm"]["spec"]["ports"]
    assert port["targetPort"] in [p["name"] for p in containers()["router"]["ports"]]
    assert endpoint(owner()) == f"http://llm.team.svc:{port['port']}"


@BOTH
def test_a_deployment_selects_its_own_pods(base: Json) -> None:
    deployment = built(base)[f"Deployment llm-router-{REVISION}"]
    selector = deployment["spec"]["selector"]["matchLabels"]
    assert selector.items() <= router(base)["metadata"]["labels"].items()
    assert {names.LABEL_REVISION, names.LABEL_DEPLOYMENT, names.LABEL_COMPONENT} <= selector.keys()


def test_the_registrar_watches_the_services_that_are_built() -> None:
    registrar = containers(FULL)["registrar"]
    for role in ROLES:
        assert f"Service {flag(registrar, f'--{role}')}" in built(FULL)
    assert flag(registrar, "--prefill-tensor") == "2"
    assert flag(registrar, "--decode-tensor") == "1"


@pytest.mark.parametrize(("base", "mode"), [(MINIMAL, "Read"), (FULL, "Write")])
def test_the_registrar_knows_the_mode_and_its_router(base: Json, mode: str) -> None:
    both = containers(base)
    assert flag(both["registrar"], "--mode") == mode
    assert flag(both["registrar"], "--router") == flag(both["router"], "--vllm-discovery-address")


def test_the_registrar_beats_until_the_router_has_ended() -> None:
    (registrar,) = router()["spec"]["initContainers"]
    assert registrar["restartPolicy"] == "Always"


@BOTH
@pytest.mark.parametrize("name", ["router", "registrar"])
def test_router_pods_are_restricted(base: Json, name: str) -> None:
    context = containers(base)[name]["securityContext"]
    assert context["readOnlyRootFilesystem"] is True
    assert context["allowPrivilegeEscalation"] is False
    assert context["capabilities"] == {"drop": ["ALL"]}
    pod = router(base)["spec"]["securityContext"]
    assert (pod["runAsNonRoot"], pod["seccompProfile"]) == (True, {"type": "RuntimeDefault"})


@BOTH
def test_only_the_registrar_has_a_token(base: Json) -> None:
    assert router(base)["spec"]["automountServiceAccountToken"] is False
    assert "volumeMounts" not in containers(base)["router"]
    (mount,) = containers(base)["registrar"]["volumeMounts"]
    assert (mount["name"], mount["readOnly"]) == ("token", True)
    (account,) = [c for key, c in built(base).items() if key.startswith("ServiceAccount")]
    assert account["automountServiceAccountToken"] is False
    assert router(base)["spec"]["serviceAccountName"] == account["metadata"]["name"]


def test_the_account_is_bound_to_the_charts_role_and_no_other() -> None:
    binding = built()["RoleBinding llm-router"]
    assert binding["roleRef"] == {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "moriio-registrar",
    }
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": "llm-router", "namespace": "team"}
    ]


def test_probes_of_the_router_ask_what_the_router_answers() -> None:
    made = containers()["router"]
    assert made["readinessProbe"]["httpGet"]["path"] == "/health"
    assert made["livenessProbe"]["httpGet"]["path"] == "/liveness"
    assert made["startupProbe"]["httpGet"]["path"] == "/liveness"


def test_a_router_may_finish_its_longest_request() -> None:
    spec = router(FULL)["spec"]
    sleep = containers(FULL)["router"]["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert spec["terminationGracePeriodSeconds"] > 900 + sleep


def test_replicas_image_and_resources_are_the_specs() -> None:
    assert built(FULL)[f"Deployment llm-router-{REVISION}"]["spec"]["replicas"] == 2
    made = containers(FULL)["router"]
    assert made["image"] == "router:2"
    assert made["resources"] == {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}}


@pytest.mark.parametrize(
    ("wish", "made"),
    [
        ({"requests": {}, "limits": {"cpu": "1"}}, {"limits": {"cpu": "1"}}),
        ({"requests": {}, "limits": {}}, {}),
        ({}, {}),
    ],
)
def test_a_routers_resources_hold_no_empty_map_which_the_api_server_would_drop(
    wish: Json, made: Json
) -> None:
    base = laid_over(MINIMAL, {"router": {"resources": wish}})
    assert containers(base)["router"]["resources"] == made
    assert containers(FULL)["registrar"]["image"] == "operator:1"
    assert router(FULL)["spec"]["imagePullSecrets"] == [{"name": "pull"}]


def test_children_of_two_deployments_never_share_a_name() -> None:
    # One deployment may be named as another's child.
    for other in ("llm-router", "llm-prefill", f"llm-router-{REVISION}"):
        assert not built().keys() & built(name=other).keys()


def test_routers_send_the_key_that_engines_ask_for() -> None:
    change: Json = {"engine": {"apiKeySecretKeyRef": {"name": "api", "key": "key"}}}
    made = children_of(owner(change))[-1]["spec"]["template"]["spec"]["containers"][0]
    assert made["env"] == [
        {
            "name": "OPENAI_API_KEY",
            "valueFrom": {"secretKeyRef": {"name": "api", "key": "key"}},
        }
    ]
    assert "env" not in containers()["router"]

"""The chart as helm renders it: values taken and refused, rights, the operator's settings."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from bed.binaries import binaries
from bed.cache import REPO
from bed.client import Client
from bed.errors import BedError
from moriio_operator.api import crd
from moriio_operator.kube import kinds
from moriio_operator.kube.kinds import Kind
from moriio_operator.runtime.settings import Settings

CHART = str(REPO / "charts/moriio-operator")
VALUES = REPO / "tests/chart_values"
SETS = sorted(path.name for path in VALUES.glob("*.yaml"))
# helm asks no cluster here; without it, a helm built from source takes the cluster for an old one.
KUBERNETES = ("--kube-version", "1.33.0")

Object = dict[str, Any]
Helm = Callable[..., str]
Render = Callable[..., list[Object]]


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    nowhere = tmp_path_factory.mktemp("helm") / "kubeconfig"
    return Client(binaries(), nowhere).helm


@pytest.fixture(scope="module")
def render(helm: Helm) -> Render:
    def rendered(*options: str) -> list[Object]:
        text = helm("template", "demo", CHART, "--namespace=moriio-system", *KUBERNETES, *options)
        return [obj for obj in yaml.safe_load_all(text) if obj]

    return rendered


def _values(name: str) -> str:
    return f"--values={VALUES / name}"


def _one(objects: list[Object], kind: str, name: str | None = None) -> Object:
    found = [o for o in objects if o["kind"] == kind and name in (None, o["metadata"]["name"])]
    assert len(found) == 1, f"{kind} {name or ''}: {len(found)} rendered"
    return found[0]


def _of(objects: list[Object], kind: str) -> list[Object]:
    return [obj for obj in objects if obj["kind"] == kind]


def _settings(objects: list[Object]) -> Settings:
    return Settings.model_validate_json(_one(objects, "ConfigMap")["data"]["settings.json"])


def _container(objects: list[Object]) -> Object:
    containers: list[Object] = _pod(objects)["spec"]["containers"]
    assert len(containers) == 1
    return containers[0]


def _pod(objects: list[Object]) -> Object:
    pod: Object = _one(objects, "Deployment")["spec"]["template"]
    return pod


def _rights(role: Object) -> set[tuple[str, str, str]]:
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def _wanted(kind: Kind, *verbs: str, subresource: str = "") -> set[tuple[str, str, str]]:
    return {(kind.group, f"{kind.plural}{subresource}", verb) for verb in verbs}


def test_lint_is_clean_with_the_defaults(helm: Helm) -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", CHART, *KUBERNETES)


@pytest.mark.parametrize("name", SETS)
def test_lint_is_clean_with(helm: Helm, name: str) -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", CHART, *KUBERNETES, _values(name))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("workrs=3", "additional properties 'workrs' not allowed"),
        ("policy.privileged={a}", "at '/policy': additional properties 'privileged' not allowed"),
        ("image.name=x", "at '/image': additional properties 'name' not allowed"),
        ("crds.delete=true", "at '/crds': additional properties 'delete' not allowed"),
        ("metrics.service.port=1", "at '/metrics/service': additional properties 'port' not"),
        ("replicas=2", "additional properties 'replicas' not allowed"),
        ("policy.hostPathPrefixes={models}", "at '/policy/hostPathPrefixes/0': 'models' does not"),
        ("policy.hostPathPrefixes={/a/../etc}", 'policy.hostPathPrefixes: "/a/../etc" holds a'),
        (
            "policy.hostPathPrefixes=/models",
            "at '/policy/hostPathPrefixes': got string,",
        ),
        ("policy.privilegedNamespaces={Not_A_Name}", "at '/policy/privilegedNamespaces/0'"),
        ("workers=many", "at '/workers': got string, want integer"),
        ("workers=0", "at '/workers': minimum: got 0, want 1"),
        ("ports.end=70000", "at '/ports/end': maximum: got 70,000, want 65,535"),
        ("ports.end=19000", "ports.end (19000) is below ports.start (20000)"),
        (
            "namespaces={a},policy.privilegedNamespaces={b}",
            'policy.privilegedNamespaces: "b" is not among namespaces',
        ),
        ("logLevel=loud", "at '/logLevel': value must be one of"),
        ("crds.keep=perhaps", "at '/crds/keep': got string, want boolean"),
        ("image.digest=latest", "at '/image/digest': 'latest' does not match pattern"),
        ("image.tag=a b", "at '/image/tag': 'a b' does not match pattern"),
        ("namespaces={a,a}", "at '/namespaces': items at 0 and 1 are equal"),
    ],
)
def test_a_wrong_value_is_refused_with_its_key(render: Render, setting: str, message: str) -> None:
    with pytest.raises(BedError) as refused:
        render("--set", setting)

    assert message in str(refused.value)


def test_an_older_kubernetes_is_refused(helm: Helm) -> None:
    with pytest.raises(BedError, match=r"requires kubeVersion: >=1\.33"):
        helm("template", "demo", CHART, "--kube-version", "1.32.9")


def test_by_default_no_namespace_is_privileged_and_no_folder_of_a_node_allowed(
    render: Render,
) -> None:
    policy = _settings(render()).policy

    assert policy.privileged_namespaces == []
    assert policy.host_path_prefixes == []


@pytest.mark.parametrize("options", [(), *((_values(name),) for name in SETS)])
def test_the_operator_understands_its_settings(render: Render, options: tuple[str, ...]) -> None:
    objects = render(*options)
    settings = _settings(objects)
    role = _one(objects, "ClusterRole", settings.registrar_cluster_role)

    # A registrar reads the EndpointSlices of its namespace, and nothing else.
    assert _rights(role) == _wanted(kinds.ENDPOINT_SLICE, "list", "watch")
    assert settings.registrar_image == _container(objects)["image"]


def test_values_reach_the_settings(render: Render) -> None:
    settings = _settings(render(_values("everything.yaml")))

    assert settings.policy.privileged_namespaces == ["inference", "staging"]
    assert settings.policy.host_path_prefixes == ["/mnt/models", "/var/lib/models"]
    assert (settings.ports.start, settings.ports.end) == (21_000, 21_999)
    assert (settings.workers, settings.resync_seconds) == (2, 60)
    assert (settings.log_level, settings.http_port) == ("debug", 9090)


def test_another_policy_makes_another_pod(render: Render) -> None:
    annotations = [
        _pod(render("--set", f"policy.privilegedNamespaces={{{namespace}}}"))["metadata"][
            "annotations"
        ]
        for namespace in ("one", "two")
    ]

    assert annotations[0] != annotations[1]


def test_the_operator_may_do_what_its_code_does_and_nothing_else(render: Render) -> None:
    wanted = (
        _wanted(kinds.PDDEPLOYMENT, "get", "list", "watch")
        | _wanted(kinds.PDDEPLOYMENT, "patch", subresource="/status")
        | _wanted(kinds.PDDEPLOYMENT, "update", subresource="/finalizers")
        | _wanted(kinds.POD, "list", "watch", "create", "delete")
        | _wanted(kinds.POD, "get", subresource="/log")
        | _wanted(kinds.EVENT, "create")
        | {("rbac.authorization.k8s.io", "clusterroles", "bind")}
    )
    for kind in kinds.CHILDREN:
        wanted |= _wanted(kind, "get", "list", "watch", "create", "patch", "delete")

    assert _rights(_one(render(), "ClusterRole", "demo-moriio-operator")) == wanted


def test_the_only_role_that_the_operator_may_hand_out_is_the_registrars(render: Render) -> None:
    objects = render()
    rules = _one(objects, "ClusterRole", "demo-moriio-operator")["rules"]
    granting = [rule for rule in rules if "bind" in rule["verbs"]]

    assert [rule["resourceNames"] for rule in granting] == [
        [_settings(objects).registrar_cluster_role]
    ]


def test_with_namespaces_the_operator_has_rights_only_there(render: Render) -> None:
    objects = render(_values("namespaced.yaml"))
    bindings = _of(objects, "RoleBinding")

    assert [binding["metadata"]["namespace"] for binding in bindings] == ["inference", "staging"]
    assert _of(objects, "ClusterRoleBinding") == []
    assert _settings(objects).namespaces == ["inference", "staging"]
    for binding in bindings:
        assert binding["roleRef"]["name"] == "demo-moriio-operator"
        assert binding["subjects"] == [
            {
                "kind": "ServiceAccount",
                "name": _one(objects, "ServiceAccount")["metadata"]["name"],
                "namespace": "moriio-system",
            }
        ]


def test_the_definition_passes_through_unchanged(render: Render) -> None:
    definition = _one(render(), "CustomResourceDefinition")
    added = {key: definition["metadata"].pop(key) for key in ("labels", "annotations")}

    assert definition == crd.definition()
    assert added["annotations"] == {"helm.sh/resource-policy": "keep"}


def test_the_definition_goes_with_the_release_only_when_told(render: Render) -> None:
    definition = _one(render("--set", "crds.keep=false"), "CustomResourceDefinition")

    assert "annotations" not in definition["metadata"]


def test_the_definition_can_be_left_out(render: Render) -> None:
    assert _of(render("--set", "crds.install=false"), "CustomResourceDefinition") == []


def test_the_pod_fits_a_restricted_namespace(render: Render) -> None:
    objects = render()
    pod = _pod(objects)["spec"]

    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert _container(objects)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert [set(volume) for volume in pod["volumes"]] == [{"name", "configMap"}]


def test_two_operators_never_run_at_a_time(render: Render) -> None:
    deployment = _one(render(), "Deployment")["spec"]

    assert (deployment["replicas"], deployment["strategy"]) == (1, {"type": "Recreate"})


@pytest.mark.parametrize("options", [(), *((_values(name),) for name in SETS)])
def test_selectors_find_the_pod_whatever_labels_a_user_adds(
    render: Render, options: tuple[str, ...]
) -> None:
    objects = render(*options)
    labels = _pod(objects)["metadata"]["labels"]
    selectors = [_one(objects, "Deployment")["spec"]["selector"]["matchLabels"]]
    selectors += [service["spec"]["selector"] for service in _of(objects, "Service")]

    for selector in selectors:
        assert selector.items() <= labels.items()
        assert selector["app.kubernetes.io/instance"] == "demo"


def test_every_object_has_the_users_labels_and_the_charts_own_win(render: Render) -> None:
    for obj in render(_values("everything.yaml")):
        labels = obj["metadata"]["labels"]
        assert labels["team"] == "inference"
        assert labels["app.kubernetes.io/instance"] == "demo"


def test_ports_agree(render: Render) -> None:
    objects = render(_values("everything.yaml"))
    container = _container(objects)
    service = _one(objects, "Service")["spec"]

    assert container["ports"][0]["containerPort"] == _settings(objects).http_port
    assert service["ports"][0]["port"] == _settings(objects).http_port
    for probe in ("livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] == container["ports"][0]["name"]


def test_a_digest_wins_over_the_tag(render: Render) -> None:
    image = _container(render(_values("everything.yaml")))["image"]

    assert image == "localhost:5000/mirror/moriio-operator@sha256:" + 4 * "0123456789abcdef"


@pytest.fixture
def notes(helm: Helm, tmp_path: Path) -> Helm:
    # Without a cluster helm renders no notes, so here they pose as an object with a text.
    chart = tmp_path / "chart"
    shutil.copytree(CHART, chart)
    (chart / "templates/NOTES.txt").rename(chart / "files/NOTES.txt")
    posing = 'kind: Notes\ntext: {{ tpl (.Files.Get "files/NOTES.txt") . | toJson }}\n'
    (chart / "templates/notes.yaml").write_text(posing)

    def rendered(*options: str) -> str:
        only = "--show-only=templates/notes.yaml"
        text = helm("template", "demo", str(chart), only, *KUBERNETES, *options)
        return str(yaml.safe_load(text)["text"])

    return rendered


def test_the_notes_say_that_no_namespace_may_run_engines(notes: Helm) -> None:
    assert "NO NAMESPACE MAY RUN ENGINES YET" in notes()


def test_the_notes_name_the_namespaces_that_may(notes: Helm) -> None:
    text = notes("--set", "policy.privilegedNamespaces={inference}")

    assert "NO NAMESPACE" not in text
    assert "kubectl -n inference apply -f" in text

"""Values taken and refused, the operator's settings, the definition and the notes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml
from bed.errors import BedError
from moriio_operator.api import crd
from moriio_operator.api.kinds import PDREPORT
from moriio_operator.kube import kinds

from chart.rendering import (
    CHART,
    KUBERNETES,
    REFUSED,
    SETS,
    VALUES,
    WRONG,
    Helm,
    Render,
    container_of,
    given,
    of_kind,
    rights_of,
    rights_on,
    settings_of,
    values_file,
)


def test_lint_is_clean_with_the_defaults(helm: Helm) -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", CHART, *KUBERNETES)


@pytest.mark.parametrize("name", SETS)
def test_lint_is_clean_with(helm: Helm, name: str) -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", CHART, *KUBERNETES, values_file(name))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("workrs=3", "additional properties 'workrs' not allowed"),
        ("policy.privileged={a}", "at '/policy': additional properties 'privileged' not allowed"),
        ("image.name=x", "at '/image': additional properties 'name' not allowed"),
        ("crds.delete=true", "at '/crds': additional properties 'delete' not allowed"),
        ("metrics.service.port=1", "at '/metrics/service': additional properties 'port' not"),
        ("metrics.podMonitor.port=1", "at '/metrics/podMonitor': additional properties 'port' not"),
        ("replicas=0", "at '/replicas': minimum: got 0, want 1"),
        ("replicas=two", "at '/replicas': got string, want integer"),
        ("leaderElection.retry=1", "at '/leaderElection': additional properties 'retry' not"),
        (
            "leaderElection.retryPeriodSeconds=10",
            "leaderElection.retryPeriodSeconds (10) is not below "
            "leaderElection.renewDeadlineSeconds (10)",
        ),
        (
            "leaderElection.leaseDurationSeconds=10",
            "leaderElection.renewDeadlineSeconds (10) is not below "
            "leaderElection.leaseDurationSeconds (10)",
        ),
        ("podDisruptionBudget.enabled=true", "set replicas to 2, or podDisruptionBudget.enabled"),
        (
            "podDisruptionBudget.enabled=true,replicas=2,podDisruptionBudget.maxUnavailable=2",
            "podDisruptionBudget.maxUnavailable (2) is not below replicas (2)",
        ),
        ("podDisruptionBudget.maxUnavailable=0", "at '/podDisruptionBudget/maxUnavailable'"),
        ("podDisruptionBudget.maxUnavailable=0%", "at '/podDisruptionBudget/maxUnavailable'"),
        ("policy.maxGpus=-1", "at '/policy/maxGpus': minimum: got -1, want 0"),
        ("policy.maxGpus=many", "at '/policy/maxGpus': got string, want null or integer"),
        ("policy.imagePrefixes={a b}", "at '/policy/imagePrefixes/0': 'a b' does not match"),
        (
            "namespaces={a},policy.hostNetworkNamespaces={b}",
            'policy.hostNetworkNamespaces: "b" is not among namespaces',
        ),
        ("metrics.serviceMonitor.enabled=true", "set metrics.service.enabled to true, or use"),
        (
            "metrics.service.enabled=true,metrics.serviceMonitor.enabled=true,"
            "metrics.podMonitor.enabled=true",
            "metrics.serviceMonitor.enabled and metrics.podMonitor.enabled would scrape each pod",
        ),
        ("metrics.podMonitor.interval=soon", "at '/metrics/podMonitor/interval': 'soon' does not"),
        (
            "metrics.podMonitor.enabled=true,networkPolicy.enabled=true",
            "metrics.podMonitor.enabled, but networkPolicy.metricsFrom is empty",
        ),
        (
            "metrics.service.enabled=true,metrics.serviceMonitor.enabled=true,"
            "networkPolicy.enabled=true",
            "metrics.serviceMonitor.enabled, but networkPolicy.metricsFrom is empty",
        ),
        ("networkPolicy.apiServer.cidrs={here}", "at '/networkPolicy/apiServer/cidrs/0': 'here'"),
        ("networkPolicy.apiServer.ports={0}", "at '/networkPolicy/apiServer/ports/0': minimum"),
        ("networkPolicy.metricsFrom[0].pods=x", "additional properties 'pods' not allowed"),
        ("topologySpreadConstraints[0].maxSkew=1", "missing properties 'topologyKey'"),
        ("rbac.aggregateToEdit=true", "additional properties 'aggregateToEdit' not allowed"),
        ("policy.hostPathPrefixes={models}", "at '/policy/hostPathPrefixes/0': 'models' does not"),
        (
            "policy.hostPathPrefixes={/a/../etc}",
            'policy.hostPathPrefixes: "/a/../etc" contains `..`',
        ),
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


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_set_of_values_is_refused_in_the_words_that_it_names(
    render: Render, name: str
) -> None:
    first = (VALUES / "wrong" / name).read_text().splitlines()[0]
    assert first.startswith(REFUSED)
    with pytest.raises(BedError) as refused:
        render(values_file(f"wrong/{name}"))

    assert first.removeprefix(REFUSED) in str(refused.value)


def test_the_matrix_is_as_wide_as_promised() -> None:
    assert (len(SETS), len(WRONG)) == (12, 6)


def test_an_older_kubernetes_is_refused(helm: Helm) -> None:
    with pytest.raises(BedError, match=r"requires kubeVersion: >=1\.33"):
        helm("template", "demo", CHART, "--kube-version", "1.32.9")


def test_by_default_nothing_of_a_node_is_allowed_and_images_and_gpus_have_no_bound(
    render: Render,
) -> None:
    policy = settings_of(render()).policy

    assert policy.privileged_namespaces == []
    assert policy.host_network_namespaces == []
    assert policy.host_path_prefixes == []
    assert policy.image_prefixes == []
    assert policy.max_gpus is None


@pytest.mark.parametrize("options", [(), *((values_file(name),) for name in SETS)])
def test_the_operator_understands_its_settings(render: Render, options: tuple[str, ...]) -> None:
    objects = render(*options)
    settings = settings_of(objects)
    roles = [
        role
        for role in of_kind(objects, settings.registrar_role.kind)
        if role["metadata"]["name"] == settings.registrar_role.name
    ]

    # A registrar reads the EndpointSlices of its namespace, and reports on them, and nothing else.
    assert len(roles) == max(1, len(settings.namespaces))
    for role in roles:
        assert rights_of(role) == (
            rights_on(kinds.ENDPOINT_SLICE, "list", "watch")
            | rights_on(PDREPORT, "get", "create", "patch")
        )
    assert settings.registrar_image == container_of(objects)["image"]


def test_values_reach_the_settings(render: Render) -> None:
    settings = settings_of(render(values_file("everything.yaml")))

    assert settings.policy.privileged_namespaces == ["inference", "staging"]
    assert settings.policy.host_network_namespaces == ["staging"]
    assert settings.policy.host_path_prefixes == ["/mnt/models", "/var/lib/models"]
    assert settings.policy.image_prefixes == ["localhost:5000/mirror/"]
    assert settings.policy.max_gpus == 16
    assert (settings.ports.start, settings.ports.end) == (21_000, 21_999)
    assert (settings.workers, settings.resync_seconds) == (2, 60)
    assert (settings.log_level, settings.http_port) == ("debug", 9090)
    election = settings.leader_election
    assert (election.lease_namespace, election.lease_name) == ("moriio-system", "pd-operator")
    assert election.lease_duration_seconds == 30
    assert (election.renew_deadline_seconds, election.retry_period_seconds) == (20, 5)


def test_a_bound_of_no_gpus_is_a_bound(render: Render) -> None:
    assert settings_of(render(*given("policy.maxGpus=0"))).policy.max_gpus == 0


def test_a_bound_on_gpus_can_be_lifted_again(render: Render) -> None:
    lifted = render(*given("policy.maxGpus=8", "policy.maxGpus=null"))

    assert settings_of(lifted).policy.max_gpus is None


def test_the_definitions_pass_through_unchanged(render: Render) -> None:
    definitions = of_kind(render(), "CustomResourceDefinition")
    added = [
        {key: definition["metadata"].pop(key) for key in ("labels", "annotations")}
        for definition in definitions
    ]

    assert definitions == [crd.definition(resource) for resource in crd.RESOURCES]
    for labels_and_annotations in added:
        assert labels_and_annotations["annotations"] == {"helm.sh/resource-policy": "keep"}


def test_the_definitions_go_with_the_release_only_when_told(render: Render) -> None:
    definitions = of_kind(render("--set", "crds.keep=false"), "CustomResourceDefinition")

    assert len(definitions) == len(crd.RESOURCES)
    for definition in definitions:
        assert "annotations" not in definition["metadata"]


def test_the_definitions_can_be_left_out(render: Render) -> None:
    assert of_kind(render("--set", "crds.install=false"), "CustomResourceDefinition") == []


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

"""A release of two replicas that watches one namespace: its rights, its test, and who reaches it.

It stands in a namespace that takes restricted pods only, behind a network policy of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from bed.cluster import Bed
from bed.command import wait_until
from bed.errors import BedError
from chart.rendering import CHART, RELEASE_NAMESPACE, UNWATCHED, WATCHED, Object, as_text, given
from moriio_operator.runtime.install_check import manifest
from stage import definition
from stage.shape import OPERATOR_IMAGE

RELEASE = "chart"
NAME = "chart-moriio-operator"
ACCOUNT = f"system:serviceaccount:{RELEASE_NAMESPACE}:{NAME}"
SCRAPER = {"role": "scraper"}
REPOSITORY, _, TAG = OPERATOR_IMAGE.rpartition(":")


@pytest.fixture(scope="module")
def release(ground: Bed) -> Iterator[Bed]:
    """Give the bed with a release of two replicas in one namespace; both are ready."""
    scraper = "networkPolicy.metricsFrom[0].podSelector.matchLabels.role=scraper"
    settings = given(
        f"image.repository={REPOSITORY}",
        f"image.tag={TAG}",
        "crds.install=false",
        "replicas=2",
        "podDisruptionBudget.enabled=true",
        f"namespaces={{{WATCHED}}}",
        "networkPolicy.enabled=true",
        scraper,
    )
    where = ("--namespace", RELEASE_NAMESPACE)
    definition.bring(ground)
    ground.helm("install", RELEASE, CHART, *where, *settings, "--wait", "--timeout=90s")
    status = f"deployment/{NAME}"
    ground.kubectl("-n", RELEASE_NAMESPACE, "rollout", "status", status, "--timeout=60s")
    yield ground
    ground.helm("uninstall", RELEASE, *where, "--wait", "--timeout=60s")


def may(bed: Bed, verb: str, what: str, namespace: str, *options: str, who: str = ACCOUNT) -> bool:
    """Ask the API server whether a user may do something."""
    words = ("auth", "can-i", verb, what, "-n", namespace, f"--as={who}", *options)
    return bed.kubectl(*words, check=False).strip() == "yes"


def test_in_namespaced_mode_no_cluster_right_is_the_operators(release: Bed) -> None:
    bindings = release.kubectl_json("get", "clusterrolebindings")["items"]
    accounts = [
        (subject.get("namespace"), subject["name"])
        for binding in bindings
        for subject in binding.get("subjects", [])
        if subject["kind"] == "ServiceAccount"
    ]
    assert len(accounts) > 10, "the search is blind"
    assert [account for account in accounts if account[0] == RELEASE_NAMESPACE] == []

    roles = release.kubectl_json(
        "get", "clusterroles", "-l", f"app.kubernetes.io/instance={RELEASE}"
    )
    assert {role["metadata"]["name"] for role in roles["items"]} == {
        f"{NAME}-view",
        f"{NAME}-admin",
    }


@pytest.mark.parametrize("what", ["pods", "deployments.apps", "controllerrevisions.apps"])
def test_the_operator_may_create_in_its_namespaces_alone(release: Bed, what: str) -> None:
    assert may(release, "create", what, WATCHED)
    assert not may(release, "create", what, UNWATCHED)
    assert not may(release, "create", what, RELEASE_NAMESPACE)


def test_the_operator_may_hold_its_own_lease_alone(release: Bed) -> None:
    assert may(release, "update", f"leases.coordination.k8s.io/{NAME}", RELEASE_NAMESPACE)
    assert not may(release, "update", "leases.coordination.k8s.io/other", RELEASE_NAMESPACE)
    assert not may(release, "delete", f"leases.coordination.k8s.io/{NAME}", RELEASE_NAMESPACE)
    assert not may(release, "update", f"leases.coordination.k8s.io/{NAME}", WATCHED)


def test_the_operator_may_hand_out_the_registrars_role_alone(release: Bed) -> None:
    roles = "roles.rbac.authorization.k8s.io"
    assert may(release, "bind", f"{roles}/{NAME}-registrar", WATCHED)
    assert not may(release, "bind", f"{roles}/{NAME}", WATCHED)
    assert not may(release, "bind", f"cluster{roles}/cluster-admin", WATCHED)


@pytest.mark.parametrize(
    ("role", "reads", "writes"),
    [("view", True, False), ("edit", True, False), ("admin", True, True)],
)
def test_of_users_only_admins_may_write_pddeployments(
    release: Bed, role: str, *, reads: bool, writes: bool
) -> None:
    user = f"{role}-user"
    words = ("create", "rolebinding", user, f"--clusterrole={role}", f"--user={user}")
    release.kubectl("-n", WATCHED, *words)
    # A controller adds the rights to the cluster's roles some time after.
    wait_until(
        lambda: (
            may(release, "list", "pddeployments", WATCHED, who=user) is reads
            and may(release, "create", "pddeployments", WATCHED, who=user) is writes
        ),
        timeout_s=20,
        what=f"the rights of {role}",
    )
    for verb in ("update", "patch", "delete", "deletecollection"):
        assert may(release, verb, "pddeployments", WATCHED, who=user) is writes
    for part in ("finalizers", "status"):
        own = f"--subresource={part}"
        assert not may(release, "update", "pddeployments", WATCHED, own, who=user)


def try_out(bed: Bed) -> str:
    """Run `helm test`; give what it and the pod say."""
    return bed.helm("test", RELEASE, "-n", RELEASE_NAMESPACE, "--logs", "--timeout=60s")


def test_helm_test_says_that_the_api_server_takes_a_pddeployment(release: Bed) -> None:
    assert f"takes a PDDeployment in namespace {RELEASE_NAMESPACE}" in try_out(release)
    assert release.kubectl("-n", RELEASE_NAMESPACE, "get", "pddeployments", "-o", "name") == ""


def admission_policy() -> list[Object]:
    """Give a policy of the cluster that refuses PDDeployments where the release is."""
    api, name = "admissionregistration.k8s.io/v1", {"name": "no-pddeployments"}
    rule = {"apiGroups": ["moriio.dev"], "apiVersions": ["*"], "resources": ["pddeployments"]}
    here = {"matchLabels": {"kubernetes.io/metadata.name": RELEASE_NAMESPACE}}
    policy = {
        "matchConstraints": {"resourceRules": [{**rule, "operations": ["CREATE"]}]},
        "validations": [{"expression": "false", "message": "none in this namespace"}],
    }
    binding = {
        "policyName": "no-pddeployments",
        "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": here},
    }
    return [
        {"apiVersion": api, "kind": kind, "metadata": name, "spec": spec}
        for kind, spec in (
            ("ValidatingAdmissionPolicy", policy),
            ("ValidatingAdmissionPolicyBinding", binding),
        )
    ]


def test_helm_test_fails_and_says_why_when_admission_refuses(release: Bed) -> None:
    policy = as_text(admission_policy())
    release.kubectl("create", "-f", "-", input=policy)
    try:
        # A policy holds some time after it is there.
        wait_until(
            lambda: "denied request" in attempt(release),
            timeout_s=30,
            what="the admission policy",
        )
        with pytest.raises(BedError):
            try_out(release)
        said = release.kubectl("-n", RELEASE_NAMESPACE, "logs", f"{NAME}-test")
    finally:
        release.kubectl("delete", "-f", "-", input=policy)

    assert "an admission policy or a quota of the cluster, which must admit it" in said
    assert "none in this namespace" in said


def attempt(bed: Bed) -> str:
    """Create the check's PDDeployment by dry-run as the admin; give the refusal, or nothing."""
    asked = json.dumps(manifest(RELEASE_NAMESPACE))
    try:
        bed.kubectl("create", "--dry-run=server", "-f", "-", input=asked)
    except BedError as error:
        return str(error)
    return ""


# A policy of the network knows a new pod some time after it runs.
VISIT = """
import sys, time, urllib.request
url, patience_s = sys.argv[1], float(sys.argv[2])
deadline = time.monotonic() + patience_s
while True:
    try:
        urllib.request.urlopen(url, timeout=2)
        sys.exit(0)
    except OSError as error:
        if time.monotonic() > deadline:
            sys.exit(f"{type(error).__name__}: {error}")
        time.sleep(0.2)
"""


def visit(bed: Bed, name: str, labels: dict[str, str], url: str, patience_s: int) -> str:
    """Have a pod ask for a page until it gets it or loses patience; give how the pod ended."""
    container = {
        "name": "visitor",
        "image": OPERATOR_IMAGE,
        "command": ["/opt/operator/bin/python", "-c", VISIT, url, str(patience_s)],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    made = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": RELEASE_NAMESPACE, "labels": labels},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    bed.kubectl("create", "-f", "-", input=json.dumps(made))
    phase = ("-n", RELEASE_NAMESPACE, "get", "pod", name, "-o", "jsonpath={.status.phase}")
    wait_until(
        lambda: bed.kubectl(*phase) in {"Succeeded", "Failed"},
        timeout_s=patience_s + 60,
        what=f"the end of pod {name}",
    )
    return bed.kubectl(*phase)


def test_only_named_scrapers_reach_the_metrics(release: Bed) -> None:
    # That both pods are ready shows that the kubelet's probes and the API server pass.
    pods = release.kubectl_json(
        "-n", RELEASE_NAMESPACE, "get", "pods", "-l", "app.kubernetes.io/component=operator"
    )["items"]
    assert len(pods) == 2
    for index, pod in enumerate(pods):
        url = f"http://{pod['status']['podIP']}:8080/metrics"
        assert visit(release, f"scraper-{index}", SCRAPER, url, 30) == "Succeeded"
        assert visit(release, f"stranger-{index}", {"role": "stranger"}, url, 4) == "Failed"

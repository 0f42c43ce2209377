"""The operator's pods and what selects, counts, scrapes, shields and tries them."""

from __future__ import annotations

import pytest

from chart.rendering import (
    SETS,
    Render,
    container_of,
    given,
    of_kind,
    one,
    pod_of,
    selectors_of,
    settings_of,
    values_file,
)


def test_another_policy_makes_another_pod(render: Render) -> None:
    annotations = [
        pod_of(render("--set", f"policy.privilegedNamespaces={{{namespace}}}"))["metadata"][
            "annotations"
        ]
        for namespace in ("one", "two")
    ]

    assert annotations[0] != annotations[1]


def test_the_pods_fit_a_restricted_namespace(render: Render) -> None:
    objects = render()
    for pod in (pod_of(objects)["spec"], one(objects, "Pod")["spec"]):
        (container,) = pod["containers"]
        assert pod["securityContext"] == {
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert [set(volume) for volume in pod.get("volumes", [])] in ([], [{"name", "configMap"}])


def test_one_replica_is_replaced_by_one_that_stands_by_first(render: Render) -> None:
    deployment = one(render(), "Deployment")["spec"]

    assert deployment["replicas"] == 1
    assert deployment["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}


def test_of_several_replicas_one_may_go_first(render: Render) -> None:
    deployment = one(render(*given("replicas=3")), "Deployment")["spec"]

    assert deployment["replicas"] == 3
    assert deployment["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 1}


def test_a_pod_that_hangs_is_not_waited_for_long(render: Render) -> None:
    assert pod_of(render())["spec"]["terminationGracePeriodSeconds"] == 10


@pytest.mark.parametrize("value", ["1", "50%"])
def test_a_budget_has_what_it_is_told(render: Render, value: str) -> None:
    options = given("replicas=2", "podDisruptionBudget.enabled=true")
    objects = render(*options, *given(f"podDisruptionBudget.maxUnavailable={value}"))
    budget = one(objects, "PodDisruptionBudget")["spec"]

    assert str(budget["maxUnavailable"]) == value
    assert (
        budget["selector"]["matchLabels"].items() <= pod_of(objects)["metadata"]["labels"].items()
    )


@pytest.mark.parametrize("options", [(), given("replicas=2")])
def test_no_budget_is_there_unasked(render: Render, options: tuple[str, ...]) -> None:
    assert of_kind(render(*options), "PodDisruptionBudget") == []


def test_a_spread_counts_the_operators_pods_unless_told_otherwise(render: Render) -> None:
    constraint = {"maxSkew": "1", "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    both = [
        f"topologySpreadConstraints[{index}].{key}={value}"
        for index in (0, 1)
        for key, value in constraint.items()
    ]
    other = "topologySpreadConstraints[1].labelSelector.matchLabels.app=other"
    objects = render(*given(*both, other))
    own, theirs = pod_of(objects)["spec"]["topologySpreadConstraints"]

    assert own["labelSelector"] == one(objects, "Deployment")["spec"]["selector"]
    assert theirs["labelSelector"] == {"matchLabels": {"app": "other"}}


def test_a_service_monitor_finds_the_service_and_its_port(render: Render) -> None:
    objects = render(values_file("prometheus-service.yaml"))
    monitor, service = one(objects, "ServiceMonitor"), one(objects, "Service")

    assert monitor["metadata"]["labels"]["release"] == "kube-prometheus-stack"
    selector = monitor["spec"]["selector"]["matchLabels"]
    assert selector.items() <= service["metadata"]["labels"].items()
    assert monitor["spec"]["endpoints"] == [{"port": "http", "path": "/metrics"}]
    assert [port["name"] for port in service["spec"]["ports"]] == ["http"]
    assert of_kind(objects, "PodMonitor") == []


def test_a_pod_monitor_finds_the_pods_and_their_port(render: Render) -> None:
    objects = render(values_file("prometheus-pod.yaml"))
    monitor = one(objects, "PodMonitor")["spec"]
    selector = monitor["selector"]["matchLabels"]

    assert selector.items() <= pod_of(objects)["metadata"]["labels"].items()
    (endpoint,) = monitor["podMetricsEndpoints"]
    assert endpoint == {"port": "http", "path": "/metrics", "interval": "1m"}
    assert container_of(objects)["ports"][0]["name"] == "http"
    assert of_kind(objects, "ServiceMonitor") == of_kind(objects, "Service") == []


def test_a_closed_operator_lets_nobody_in_and_reaches_the_api_server_alone(render: Render) -> None:
    objects = render(values_file("closed-network.yaml"))
    policy = one(objects, "NetworkPolicy")["spec"]

    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["ingress"] == []
    (egress,) = policy["egress"]
    assert [port["port"] for port in egress["ports"]] == [443, 6443]
    cidrs = ["10.96.0.1/32", "fd00:10:96::1/128", "192.0.2.10/32"]
    assert egress["to"] == [{"ipBlock": {"cidr": cidr}} for cidr in cidrs]


def test_named_scrapers_reach_the_metrics_port_alone(render: Render) -> None:
    objects = render(values_file("everything.yaml"))
    (ingress,) = one(objects, "NetworkPolicy")["spec"]["ingress"]

    assert ingress["ports"] == [{"port": settings_of(objects).http_port, "protocol": "TCP"}]
    assert [set(peer) for peer in ingress["from"]] == [
        {"namespaceSelector", "podSelector"},
        {"ipBlock"},
    ]


def test_without_networks_the_api_server_may_be_anywhere(render: Render) -> None:
    (egress,) = one(render(values_file("prometheus-pod.yaml")), "NetworkPolicy")["spec"]["egress"]

    assert egress.keys() == {"ports"}


def test_the_test_pod_is_a_hook_and_runs_the_operators_image(render: Render) -> None:
    objects = render(values_file("mirror.yaml"))
    pod = one(objects, "Pod")
    (container,) = pod["spec"]["containers"]

    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert container["args"] == ["install-check"]
    assert container["image"] == container_of(objects)["image"]
    assert pod["spec"]["imagePullSecrets"] == pod_of(objects)["spec"]["imagePullSecrets"]


def test_the_test_pod_runs_where_the_operator_may(render: Render) -> None:
    objects = render(values_file("everything.yaml"))

    for key in ("nodeSelector", "tolerations", "affinity", "priorityClassName"):
        assert one(objects, "Pod")["spec"][key] == pod_of(objects)["spec"][key]


@pytest.mark.parametrize("options", [(), *((values_file(name),) for name in SETS)])
def test_no_selector_of_the_operators_matches_the_test_pod(
    render: Render, options: tuple[str, ...]
) -> None:
    objects = render(*options)
    labels = one(objects, "Pod")["metadata"]["labels"]

    for selector in selectors_of(objects):
        assert not selector.items() <= labels.items()


@pytest.mark.parametrize("options", [(), *((values_file(name),) for name in SETS)])
def test_selectors_find_the_pod_whatever_labels_a_user_adds(
    render: Render, options: tuple[str, ...]
) -> None:
    objects = render(*options)
    labels = pod_of(objects)["metadata"]["labels"]

    for selector in selectors_of(objects):
        assert selector.items() <= labels.items()
        assert selector["app.kubernetes.io/instance"] == "demo"


def test_every_object_has_the_users_labels_and_the_charts_own_win(render: Render) -> None:
    for obj in render(values_file("everything.yaml")):
        labels = obj["metadata"]["labels"]
        assert labels["team"] == "inference"
        assert labels["app.kubernetes.io/instance"] == "demo"


def test_ports_agree(render: Render) -> None:
    objects = render(values_file("everything.yaml"))
    container = container_of(objects)
    service = one(objects, "Service")["spec"]

    assert container["ports"][0]["containerPort"] == settings_of(objects).http_port
    assert service["ports"][0]["port"] == settings_of(objects).http_port
    for probe in ("livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] == container["ports"][0]["name"]


def test_a_digest_wins_over_the_tag(render: Render) -> None:
    image = container_of(render(values_file("everything.yaml")))["image"]

    assert image == "localhost:5000/mirror/moriio-operator@sha256:" + 4 * "0123456789abcdef"

"""Every admin's choice of values is taken by a real API server, and a wrong one by nobody."""

from __future__ import annotations

import pytest
import yaml
from bed.cluster import Bed
from bed.errors import BedError
from chart.rendering import (
    CHART,
    KUBERNETES,
    REFUSED,
    RELEASE_NAMESPACE,
    SETS,
    UNWATCHED,
    VALUES,
    WRONG,
    Object,
    as_text,
    values_file,
)


def rendered(bed: Bed, *options: str) -> list[Object]:
    """Give what helm makes of the chart."""
    where = f"--namespace={RELEASE_NAMESPACE}"
    text = bed.helm("template", "demo", CHART, where, *KUBERNETES, *options)
    return [obj for obj in yaml.safe_load_all(text) if obj]


def dry_run(bed: Bed, objects: list[Object]) -> list[str]:
    """Have the API server check objects as if it stored them; give its line on each."""
    words = ("apply", "--dry-run=server", "--validate=strict", "-f", "-")
    return bed.kubectl(*words, input=as_text(objects)).splitlines()


@pytest.mark.parametrize("name", SETS)
def test_every_object_of_an_admins_choice_is_taken(ground: Bed, name: str) -> None:
    objects = rendered(ground, values_file(name))

    # A pod is not admitted without its account, which a dry-run does not leave behind.
    accounts = as_text([obj for obj in objects if obj["kind"] == "ServiceAccount"])
    ground.kubectl("create", "-f", "-", input=accounts)
    try:
        # Pod Security refuses pods, and of Deployments it only warns.
        assert len(dry_run(ground, [*objects, pod_of_the_operator(objects)])) == len(objects) + 1
    finally:
        ground.kubectl("delete", "-f", "-", input=accounts)


def pod_of_the_operator(objects: list[Object]) -> Object:
    """Give the pod that the operator's Deployment will make."""
    (deployment,) = [obj for obj in objects if obj["kind"] == "Deployment"]
    template = deployment["spec"]["template"]
    place = {"name": "made-by-hand", "namespace": RELEASE_NAMESPACE}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**template["metadata"], **place},
        "spec": template["spec"],
    }


def test_the_api_server_is_asked_in_earnest(ground: Bed) -> None:
    objects = rendered(ground, values_file("prometheus-service.yaml"))
    (monitor,) = [obj for obj in objects if obj["kind"] == "ServiceMonitor"]
    monitor["spec"]["endpoints"][0]["prot"] = "http"

    with pytest.raises(BedError, match=r'unknown field "spec\.endpoints\[0\]\.prot"'):
        dry_run(ground, objects)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_choice_is_refused_at_install_in_clear_words(ground: Bed, name: str) -> None:
    words = (VALUES / "wrong" / name).read_text().splitlines()[0].removeprefix(REFUSED)

    with pytest.raises(BedError) as refused:
        ground.helm("install", "wrong", CHART, "-n", UNWATCHED, values_file(f"wrong/{name}"))

    assert words in str(refused.value)
    assert ground.helm("list", "--all", "-q", "-n", UNWATCHED) == ""

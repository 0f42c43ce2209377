"""The model hub's token and the engines' API key: they work, and show nowhere.

The tests share one deployment of real engines and stand in the order of its life.
"""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from bed.cluster import Bed
from stage.deployments import stub, tiny
from stage.installation import NAMESPACE, RELEASE
from stage.service import Service
from stage.traffic import complete, engine_address, metrics, router_address

pytestmark = pytest.mark.load(2)

QUICK_S = 90
REPAIRED_S = 180
API_KEY = "api-key-that-nobody-may-see"
ROTATED_KEY = "another-key-that-nobody-may-see"
HUB_TOKEN = "hub-token-that-nobody-may-see"
HIDDEN = (API_KEY, ROTATED_KEY, HUB_TOKEN)


def keep(bed: Bed, namespace: str, name: str, value: str) -> None:
    """Store a secret, or change it."""
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "data": {"value": base64.b64encode(value.encode()).decode()},
    }
    bed.kubectl("apply", "-f", "-", input=json.dumps(secret))


@pytest.fixture(scope="module")
def service(operator: Bed, new_namespace: Callable[[], str]) -> Service:
    """Real engines that ask for a key, and were given a token."""
    name = new_namespace()
    keep(operator, name, "api", API_KEY)
    keep(operator, name, "hub", HUB_TOKEN)
    manifest = tiny(name, "pd", "Read")
    manifest["spec"]["engine"]["apiKeySecretKeyRef"] = {"name": "api", "key": "value"}
    manifest["spec"]["model"]["tokenSecretKeyRef"] = {"name": "hub", "key": "value"}
    made = Service.apply(operator, manifest)
    made.wait_settled()
    return made


@pytest.fixture
def namespace(service: Service) -> str:
    """The namespace that a failing test reports on."""
    return service.namespace


def models(pod: dict[str, Any], key: str | None) -> int:
    """Ask an engine itself for its models; give the HTTP status."""
    url = f"http://{engine_address(pod)}/v1/models"
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as r:
            return int(r.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@pytest.mark.usefixtures("namespace")
def test_engines_ask_for_the_key_and_the_routers_have_it(service: Service) -> None:
    for pod in service.pods():
        assert models(pod, None) == 401
        assert models(pod, API_KEY) == 200
    assert complete(router_address(service), "the router sends the key").status == 200


@pytest.mark.usefixtures("namespace")
def test_engines_have_the_hubs_token(service: Service) -> None:
    for pod in service.pods():
        where = ("exec", pod["metadata"]["name"], "-c", "engine", "--")
        found = service.bed.kubectl(
            "-n", service.namespace, *where, "sh", "-c", 'printf %s "$HF_TOKEN"'
        )
        assert found == HUB_TOKEN


@pytest.mark.usefixtures("namespace")
def test_no_secret_shows_in_objects_logs_events_or_metrics(service: Service) -> None:
    bed, where = service.bed, ("-n", service.namespace)
    kinds = "pods,services,deployments,replicasets,controllerrevisions,pddeployments,events"
    told = {"objects": bed.kubectl(*where, "get", kinds, "-o", "yaml")}
    told["operator"] = bed.kubectl("-n", NAMESPACE, "logs", f"deployment/{RELEASE}")
    pods = bed.kubectl_json(*where, "get", "pods")["items"]
    for pod in pods:
        name = pod["metadata"]["name"]
        told[name] = bed.kubectl(*where, "logs", name, "--all-containers")
    for pod in service.pods():
        told[f"metrics of {pod['metadata']['name']}"] = metrics(pod)
    assert all(told.values())
    assert len(pods) >= 3
    shown = [(place, secret) for place, text in told.items() for secret in HIDDEN if secret in text]
    assert shown == []


@pytest.mark.usefixtures("namespace")
def test_the_operator_may_not_read_secrets(service: Service) -> None:
    account = f"--as=system:serviceaccount:{NAMESPACE}:{RELEASE}"
    for verb in ("get", "list", "watch"):
        answer = service.bed.kubectl(
            "auth", "can-i", verb, "secrets", "-n", service.namespace, account, check=False
        )
        assert answer.strip() == "no"


@pytest.mark.usefixtures("namespace")
def test_a_key_is_rotated_when_the_user_says_so(service: Service) -> None:
    before = {pod["metadata"]["uid"] for pod in service.pods()}
    revision = service.status()["revision"]
    keep(service.bed, service.namespace, "api-2", ROTATED_KEY)
    service.wait_settled(QUICK_S)
    assert {pod["metadata"]["uid"] for pod in service.pods()} == before

    service.patch(engine={"apiKeySecretKeyRef": {"name": "api-2"}})
    service.wait_settled(REPAIRED_S)
    assert service.status()["revision"] != revision
    for pod in service.pods():
        assert pod["metadata"]["uid"] not in before
        assert (models(pod, API_KEY), models(pod, ROTATED_KEY)) == (401, 200)
    assert complete(router_address(service), "with the other key").status == 200


def test_a_secret_that_is_missing_is_named_and_waited_for(
    operator: Bed, new_namespace: Callable[[], str]
) -> None:
    name = new_namespace()
    manifest = stub(name)
    manifest["spec"]["engine"]["apiKeySecretKeyRef"] = {"name": "absent", "key": "value"}
    made = Service.apply(operator, manifest)
    found = made.wait_condition("DecodeReady", "False", "CreateContainerConfigError", QUICK_S)
    assert 'secret "absent" not found' in found["message"]
    keep(operator, name, "absent", API_KEY)
    made.wait_settled(QUICK_S)

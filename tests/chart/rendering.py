"""The chart as helm renders it, and what tests look for in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import yaml
from bed.cache import REPO
from moriio_operator.kube.kinds import Kind
from moriio_operator.runtime.settings import Settings

CHART = str(REPO / "charts/moriio-operator")
VALUES = REPO / "tests/chart_values"
# The choices of twelve admins, and five that are none: their first line holds what helm must say.
SETS = sorted(path.name for path in VALUES.glob("*.yaml"))
WRONG = sorted(path.name for path in (VALUES / "wrong").glob("*.yaml"))
# helm asks no cluster here; without it, a helm built from source takes the cluster for an old one.
KUBERNETES = ("--kube-version", "1.33.0")
REFUSED = "# refused: "
# Of the tests on a cluster. The namespaces that values name are `inference` and `staging`.
RELEASE_NAMESPACE = "chart-operator"
WATCHED, UNWATCHED = "inference", "staging"

Object = dict[str, Any]
Helm = Callable[..., str]
Render = Callable[..., list[Object]]


def values_file(name: str) -> str:
    """Give the option that names one of the sets of values."""
    return f"--values={VALUES / name}"


def one(objects: list[Object], kind: str, name: str | None = None) -> Object:
    """Give the only object of a kind, or of a kind and name."""
    found = [o for o in objects if o["kind"] == kind and name in (None, o["metadata"]["name"])]
    assert len(found) == 1, f"{kind} {name or ''}: {len(found)} rendered"
    return found[0]


def of_kind(objects: list[Object], kind: str) -> list[Object]:
    """Give all objects of a kind."""
    return [obj for obj in objects if obj["kind"] == kind]


def names_of(objects: list[Object], kind: str) -> set[str]:
    """Give the names of all objects of a kind."""
    return {obj["metadata"]["name"] for obj in of_kind(objects, kind)}


def settings_of(objects: list[Object]) -> Settings:
    """Give the settings as the operator reads them."""
    return Settings.model_validate_json(one(objects, "ConfigMap")["data"]["settings.json"])


def container_of(objects: list[Object]) -> Object:
    """Give the operator's container."""
    containers: list[Object] = pod_of(objects)["spec"]["containers"]
    assert len(containers) == 1
    return containers[0]


def pod_of(objects: list[Object]) -> Object:
    """Give the template of the operator's pods."""
    template: Object = one(objects, "Deployment")["spec"]["template"]
    return template


def given(*settings: str) -> tuple[str, ...]:
    """Give the options that set values by name."""
    return tuple(word for setting in settings for word in ("--set", setting))


def bound_to(objects: list[Object], account: str) -> list[Object]:
    """Give the bindings of an account."""
    return [
        obj
        for obj in objects
        if obj["kind"].endswith("Binding")
        and account in [subject["name"] for subject in obj["subjects"]]
    ]


def rights_of(role: Object) -> set[tuple[str, str, str]]:
    """Give what a role allows, as group, resource and verb."""
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def rights_on(kind: Kind, *verbs: str, subresource: str = "") -> set[tuple[str, str, str]]:
    """Give rights on a kind, in the same form."""
    return {(kind.group, f"{kind.plural}{subresource}", verb) for verb in verbs}


def selectors_of(objects: list[Object]) -> list[dict[str, str]]:
    """Give the selectors that are meant for the operator's pods."""
    found: list[dict[str, str]] = [
        one(objects, "Deployment")["spec"]["selector"]["matchLabels"],
        *(service["spec"]["selector"] for service in of_kind(objects, "Service")),
        *(
            policy["spec"]["podSelector"]["matchLabels"]
            for policy in of_kind(objects, "NetworkPolicy")
        ),
    ]
    for kind in ("PodDisruptionBudget", "PodMonitor"):
        found += [obj["spec"]["selector"]["matchLabels"] for obj in of_kind(objects, kind)]
    return found


def as_text(objects: list[Object]) -> str:
    """Give objects as one stream, as kubectl takes it."""
    text: str = yaml.safe_dump_all(objects)
    return text

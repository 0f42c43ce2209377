"""The ground that the chart's tests stand on: namespaces, and kinds that others bring."""

from __future__ import annotations

import pytest
from bed.cluster import Bed
from chart.rendering import RELEASE_NAMESPACE, UNWATCHED, WATCHED, Object, as_text
from stage.definition import wait_established

SELECTOR = {"matchLabels": {"type": "object", "additionalProperties": {"type": "string"}}}
ENDPOINT = {name: {"type": "string"} for name in ("port", "path", "interval")}
# The fields of the Prometheus operator's kinds that the chart may use; any other is refused.
MONITORS = {"ServiceMonitor": "endpoints", "PodMonitor": "podMetricsEndpoints"}


def monitor_definition(kind: str, endpoints: str) -> Object:
    """Give the definition of a kind of the Prometheus operator, as far as the chart uses it."""
    spec = {
        "selector": {"type": "object", "properties": SELECTOR},
        endpoints: {"type": "array", "items": {"type": "object", "properties": ENDPOINT}},
    }
    required = {"type": "object", "required": [*spec], "properties": spec}
    schema = {"type": "object", "properties": {"spec": required}}
    plural = f"{kind.lower()}s"
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.monitoring.coreos.com"},
        "spec": {
            "group": "monitoring.coreos.com",
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [version],
        },
    }


@pytest.fixture(scope="session")
def ground(bed: Bed) -> Bed:
    """Give the bed with the namespaces and the foreign kinds that values speak of."""
    bed.records.once("chart-ground", lambda: _prepare(bed))
    return bed


def _prepare(bed: Bed) -> None:
    for name in (RELEASE_NAMESPACE, WATCHED, UNWATCHED):
        bed.kubectl("create", "namespace", name)
    enforce = "pod-security.kubernetes.io/enforce=restricted"
    bed.kubectl("label", "namespace", RELEASE_NAMESPACE, enforce)
    monitors = [monitor_definition(*pair) for pair in MONITORS.items()]
    bed.kubectl("create", "-f", "-", input=as_text(monitors))
    wait_established(bed, *(monitor["metadata"]["name"] for monitor in monitors))

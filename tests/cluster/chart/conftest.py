"""The ground that the chart's tests stand on: namespaces, and kinds that others bring."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from bed.cluster import Bed
from chart.rendering import RELEASE_NAMESPACE, UNWATCHED, WATCHED, Object, as_text

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


@pytest.fixture(scope="package")
def ground(bed: Bed) -> Iterator[Bed]:
    """Give the bed with the namespaces and the foreign kinds that values speak of."""
    namespaces = (RELEASE_NAMESPACE, WATCHED, UNWATCHED)
    for name in namespaces:
        bed.kubectl("create", "namespace", name)
    enforce = "pod-security.kubernetes.io/enforce=restricted"
    bed.kubectl("label", "namespace", RELEASE_NAMESPACE, enforce)
    monitors = as_text([monitor_definition(*pair) for pair in MONITORS.items()])
    bed.kubectl("create", "-f", "-", input=monitors)
    bed.kubectl("wait", "--for=condition=Established", "-f", "-", "--timeout=20s", input=monitors)
    yield bed
    bed.kubectl("delete", "-f", "-", input=monitors)
    bed.kubectl("delete", "namespace", *namespaces, "--timeout=60s")

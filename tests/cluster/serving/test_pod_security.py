"""Everything but engines lives under the restricted level; engines are refused with the label."""

from __future__ import annotations

from bed.cluster import Bed
from stage.deployments import stub
from stage.service import Service

QUICK_S = 90
ENFORCE = "pod-security.kubernetes.io/enforce"


def test_a_namespace_whose_level_forbids_engines_is_told_before_anything_is_made(
    operator: Bed, namespace: str
) -> None:
    operator.kubectl("label", "namespace", namespace, f"{ENFORCE}=baseline")
    service = Service.apply(operator, stub(namespace))
    refused = service.wait_condition("Accepted", "False", "PodSecurityForbids", QUICK_S)
    assert refused["message"].startswith(
        f"spec.devices.profile: the pod-security level of namespace '{namespace}' forbids "
        "privileged engines ("
    )
    assert refused["message"].endswith(
        "the admin labels it pod-security.kubernetes.io/enforce=privileged"
    )
    assert operator.kubectl_json("-n", namespace, "get", "deployments,services")["items"] == []
    assert service.status()["portAllocation"]["cursor"] == 0

    operator.kubectl("label", "namespace", namespace, "--overwrite", f"{ENFORCE}=privileged")
    service.wait_settled(QUICK_S)


def test_routers_run_where_the_restricted_level_is_enforced(operator: Bed, namespace: str) -> None:
    service = Service.apply(operator, stub(namespace))
    service.wait_settled(QUICK_S)
    # What runs stays; what comes from now on is judged.
    operator.kubectl("label", "namespace", namespace, f"{ENFORCE}=restricted")
    before = service.router_pod()["metadata"]
    operator.kubectl("-n", namespace, "delete", "pod", before["name"], "--wait=false")

    def another() -> bool:
        try:
            return bool(service.router_pod()["metadata"]["uid"] != before["uid"])
        except LookupError:
            return False

    service.wait("another router that is ready", another, QUICK_S)
    service.wait_condition("Ready", timeout_s=QUICK_S)

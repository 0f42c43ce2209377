"""The admin's policy, given by the chart's values, as users meet it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from bed.cluster import Bed
from stage.deployments import stub
from stage.service import Service
from stage.shape import STUB_IMAGE

pytestmark = pytest.mark.alone

QUICK_S = 60


def test_images_and_gpus_beyond_the_policy_are_refused_with_the_value_to_change(
    operator: Bed, namespace: str, reinstall: Callable[[Sequence[str]], None]
) -> None:
    service = Service.apply(operator, stub(namespace))
    service.wait_settled(QUICK_S)
    before = [pod["metadata"]["uid"] for pod in service.pods()]

    reinstall(["policy.imagePrefixes={localhost/moriio/router}", "policy.maxGpus=1"])
    refused = service.wait_condition("Accepted", "False", "RefusedByPolicy", QUICK_S)
    assert refused["message"].split("; ") == [
        f"spec.engine.image: image '{STUB_IMAGE}' begins with none of the prefixes that the admin "
        "allows (localhost/moriio/router): use one of them, or the admin adds its prefix to the "
        "chart value policy.imagePrefixes",
        *(
            f"spec.{role}.devices.gpu: is not given, and a privileged engine sees every GPU of its "
            "node: give count or visibleDevices, since the chart value policy.maxGpus bounds their "
            "number"
            for role in ("prefill", "decode")
        ),
    ]
    # What runs goes on, and nothing that is forbidden by now is made again.
    assert service.condition("Ready")["status"] == "True"
    assert [pod["metadata"]["uid"] for pod in service.pods()] == before

    reinstall(["policy.imagePrefixes={localhost/moriio}"])
    service.wait_condition("Accepted", "True", timeout_s=QUICK_S)
    service.wait_settled(QUICK_S)
    assert [pod["metadata"]["uid"] for pod in service.pods()] == before

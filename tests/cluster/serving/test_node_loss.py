"""A node is lost: its engine is replaced elsewhere, at ports that no living peer remembers."""

from __future__ import annotations

import pytest
from bed.cluster import Bed
from bed.command import wait_until
from stage.deployments import stub
from stage.service import Service, blocks

pytestmark = pytest.mark.alone

# A node counts as lost after 15 s, its pods are given up 10 s later.
LOST_S = 180


def test_the_engine_of_a_lost_node_comes_back_on_another(operator: Bed, namespace: str) -> None:
    service = Service.apply(operator, stub(namespace))
    service.wait_settled(90)
    (decode,) = service.pods("decode")
    used = blocks(service.pods())
    lost = decode["spec"]["nodeName"]
    operator.kill_node(lost)
    try:

        def elsewhere() -> bool:
            ready = [e for e in service.status()["engines"] if e["state"] == "Ready"]
            nodes = {e["node"] for e in ready}
            return {e["role"] for e in ready} == {"prefill", "decode"} and lost not in nodes

        service.wait("engines of both roles on the node that is left", elsewhere, LOST_S)
        service.wait_condition("Ready", timeout_s=LOST_S)
        new = [p for p in service.pods("decode") if p["spec"]["nodeName"] != lost]
        (block,) = blocks(new)
        assert not any(set(block) & set(old) for old in used)
    finally:
        operator.start_node(lost)

    def back() -> bool:
        conditions = operator.kubectl_json("get", "node", lost)["status"]["conditions"]
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    wait_until(back, timeout_s=90, what=f"{lost} to come back", every_s=0.5)
    service.wait("the dead node's pods to go", lambda: len(service.pods()) == 2, LOST_S)

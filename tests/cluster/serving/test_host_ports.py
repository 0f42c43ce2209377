"""Ports of the node that others hold: processes that no scheduler knows of, and pods that say so.

The engines are stubs, which bind every port that a real one binds.
"""

from __future__ import annotations

import json
from typing import Any

from bed.cluster import Bed
from bed.command import wait_until
from stage.deployments import Manifest, on_host, stub
from stage.service import Service, blocks

QUICK_S = 120
# Parts of the operator's range that no other test's engines come to; one a test, since what one
# leaves behind goes in its own time.
UNKNOWN, FULL, SMALL = 25_000, 25_100, 25_200


def narrow(namespace: str, name: str, start: int, ports: int) -> Manifest:
    """A deployment with so many ports for its two engines, of four each."""
    made = on_host(stub(namespace, name))
    made["spec"]["network"]["portRange"] = {"start": start, "end": start + ports - 1}
    return made


def holder(bed: Bed, namespace: str, node: str, ports: list[int], *, declared: bool) -> str:
    """Start a pod on a node's network that listens on ports there, and says so or does not."""
    program = (
        "import socket, time\n"
        f"held = [socket.create_server(('0.0.0.0', port)) for port in {ports}]\n"
        "print('listening', flush=True)\n"
        "time.sleep(3600)"
    )
    name = f"holder-{node}"
    # On the host network every port that is declared is the node's.
    said = [{"containerPort": port} for port in ports] if declared else []
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "hostNetwork": True,
            "nodeName": node,
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": "main",
                    "image": "localhost/moriio/base:dev",
                    "imagePullPolicy": "Never",
                    "command": ["python3", "-c", program],
                    "ports": said,
                }
            ],
        },
    }
    where = ("-n", namespace)
    bed.kubectl(*where, "apply", "-f", "-", input=json.dumps(pod))
    bed.kubectl(*where, "wait", f"pod/{name}", "--for=condition=Ready", "--timeout=30s")
    wait_until(
        lambda: "listening" in bed.kubectl(*where, "logs", name),
        timeout_s=30,
        what=f"{name} to listen",
        every_s=0.3,
    )
    return name


def notes(service: Service) -> list[str]:
    """What the deployment's Events say."""
    found = service.bed.kubectl_json("-n", service.namespace, "get", "events.events.k8s.io")
    return [
        event.get("note", "")
        for event in found["items"]
        if event["regarding"].get("name") == service.name
    ]


def test_a_process_that_holds_a_port_costs_a_block_and_not_the_service(
    operator: Bed, namespace: str
) -> None:
    # Both blocks that come first have a port that is held, on every node.
    held = [UNKNOWN + 2, UNKNOWN + 7]
    for node in operator.node_names:
        holder(operator, namespace, node, held, declared=False)
    service = Service.apply(operator, narrow(namespace, "unknown", UNKNOWN, 32))
    told = service.wait_condition("PortsAllocated", "False", "PortInUse", QUICK_S)
    assert "Address already in use: another process of this node listens on port" in told["message"]
    service.wait_settled(QUICK_S)
    used = [port for block in blocks(service.pods()) for port in block]
    assert not set(used) & set(held)
    assert service.condition("PortsAllocated")["status"] == "True"
    ended = [note for note in notes(service) if "PortInUse" in note]
    assert any(str(held[0]) in note or str(held[1]) in note for note in ended)


def test_pods_that_hold_all_ports_are_named_and_when_they_go_the_engines_come(
    operator: Bed, namespace: str
) -> None:
    held = list(range(FULL, FULL + 16))
    holders = [
        holder(operator, namespace, node, held, declared=True) for node in operator.node_names
    ]
    service = Service.apply(operator, narrow(namespace, "full", FULL, 16))
    told = service.wait_condition("PortsAllocated", "False", "HostPortTaken", QUICK_S)
    assert "didn't have free ports for the requested pod ports" in told["message"]
    assert "widen spec.network.portRange" in told["message"]
    ready = service.wait_condition("PrefillReady", "False", timeout_s=QUICK_S)
    assert "free ports" in ready["message"]
    operator.kubectl("-n", namespace, "delete", "pod", *holders)
    service.wait_settled(QUICK_S)


def test_a_range_that_is_too_small_is_told_and_what_has_ports_serves(
    operator: Bed, namespace: str
) -> None:
    service = Service.apply(operator, narrow(namespace, "small", SMALL, 8))
    service.wait_settled(QUICK_S)
    service.patch(decode={"replicas": 2})
    told = service.wait_condition("PortsAllocated", "False", "PortsExhausted", QUICK_S)
    assert told["message"] == (
        "2 of 3 engines have ports: no 4 contiguous ports are free in 25200-25207: of its 8 ports "
        "8 are held by engines, or known to engines that live; widen spec.network.portRange"
    )
    assert service.condition("Ready")["status"] == "True"
    service.patch(network={"portRange": {"start": SMALL, "end": SMALL + 15}})
    service.wait_settled(QUICK_S)
    assert len(service.pods("decode")) == 2

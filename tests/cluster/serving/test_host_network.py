"""The host network with real engines: two deployments on the same two nodes, one in each mode.

Their engines share the nodes' addresses, so only ports keep them apart. The tests stand in the
order of the deployments' life.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from bed.cluster import Bed
from bed.command import wait_until
from stage.deployments import on_host, tiny
from stage.handshake import handshake
from stage.service import Service, blocks
from stage.traffic import PROMPTS, Answer, complete, router_address

pytestmark = pytest.mark.load(3)

REPAIRED_S = 240
MODES = ("Read", "Write")
# Whose engine peers dial, and so know by its address: prefill in Read, decode in Write.
DIALLED = {"Read": "prefill", "Write": "decode"}


@pytest.fixture(scope="module")
def home(new_namespace: Callable[[], str]) -> str:
    """The namespace of both deployments."""
    return new_namespace()


@pytest.fixture(scope="module")
def services(operator: Bed, home: str) -> dict[str, Service]:
    """One deployment a mode; prefill and decode of each on different nodes."""
    made = {
        mode: Service.apply(operator, on_host(tiny(home, mode.lower(), mode))) for mode in MODES
    }
    for service in made.values():
        service.wait_settled()
    return made


@pytest.fixture
def namespace(home: str) -> str:
    """The namespace that a failing test reports on."""
    return home


@pytest.mark.usefixtures("namespace")
def test_engines_of_both_are_on_the_same_nodes_at_ports_of_their_own(
    operator: Bed, services: dict[str, Service]
) -> None:
    addresses = {
        node["metadata"]["name"]: entry["address"]
        for node in operator.kubectl_json("get", "nodes")["items"]
        for entry in node["status"]["addresses"]
        if entry["type"] == "InternalIP"
    }
    pods = [pod for service in services.values() for pod in service.pods()]
    for service in services.values():
        assert {p["spec"]["nodeName"] for p in service.pods()} == set(addresses)
    for pod in pods:
        assert pod["status"]["podIP"] == addresses[pod["spec"]["nodeName"]]
    taken = [port for block in blocks(pods) for port in block]
    assert len(taken) == len(set(taken)) == 4 * len(pods)
    for service in services.values():
        told = service.status()["engines"]
        assert {e["address"] for e in told} == set(addresses.values())
        assert service.condition("PortsAllocated")["status"] == "True"


@pytest.mark.usefixtures("namespace")
@pytest.mark.parametrize("mode", MODES)
def test_tokens_are_those_of_the_model_served_alone(
    services: dict[str, Service], expected: list[Answer], mode: str
) -> None:
    address = router_address(services[mode])
    answers = [complete(address, prompt) for prompt in PROMPTS]
    assert [a.text for a in answers] == [e.text for e in expected]


@pytest.mark.usefixtures("namespace")
@pytest.mark.parametrize("mode", MODES)
def test_a_real_engine_answers_a_handshake_probe(services: dict[str, Service], mode: str) -> None:
    for pod in services[mode].pods():
        [told] = handshake(pod)
        # The tiny model's two layers, each with blocks of 32 tokens.
        assert (told.layers, told.blocks) == (2, 256)


@pytest.mark.usefixtures("namespace")
@pytest.mark.parametrize("mode", MODES)
def test_who_is_killed_comes_back_on_its_node_at_other_ports_and_is_found(
    services: dict[str, Service], expected: list[Answer], mode: str
) -> None:
    service = services[mode]
    role = DIALLED[mode]
    (victim,) = service.pods(role)
    (peer,) = (p for p in service.pods() if p["metadata"]["uid"] != victim["metadata"]["uid"])
    used = blocks([p for each in services.values() for p in each.pods()])
    service.bed.kill_process(service.namespace, victim["metadata"]["name"], "engine")

    service.wait_successor(victim)
    service.wait_settled(REPAIRED_S)
    # Answers, not one: the first may still be routed to who is gone.
    wait_until(
        lambda: complete(router_address(service), PROMPTS[0]).text == expected[0].text,
        timeout_s=REPAIRED_S,
        what="the service to answer again",
    )
    answers = [complete(router_address(service), prompt) for prompt in PROMPTS]
    assert [a.text for a in answers] == [e.text for e in expected]
    (new,) = service.pods(role)
    assert new["spec"]["nodeName"] == victim["spec"]["nodeName"]
    assert new["status"]["podIP"] == victim["status"]["podIP"]
    (block,) = blocks([new])
    assert not any(set(block) & set(old) for old in used)
    uids = [p["metadata"]["uid"] for p in service.pods()]
    assert peer["metadata"]["uid"] in uids, "the peer recovered by itself"


@pytest.mark.usefixtures("namespace")
def test_a_deleted_deployment_leaves_its_neighbour_alone(services: dict[str, Service]) -> None:
    gone, stays = services["Read"], services["Write"]
    before = {pod["metadata"]["uid"] for pod in stays.pods()}
    gone.delete_and_wait()
    assert {pod["metadata"]["uid"] for pod in stays.pods()} == before
    assert complete(router_address(stays), PROMPTS[0]).status == 200
    stays.delete_and_wait()


@pytest.mark.usefixtures("namespace")
def test_each_tensor_parallel_rank_has_ports_and_sizes_that_differ_fit(
    operator: Bed, home: str, expected: list[Answer]
) -> None:
    manifest = on_host(tiny(home, "ranks", "Read"))
    ranks = {"prefill": 2, "decode": 4}
    for role, count in ranks.items():
        manifest["spec"][role]["parallelism"] = {"tensor": count}
    service = Service.apply(operator, manifest)
    service.wait_settled()
    for role, count in ranks.items():
        (pod,) = service.pods(role)
        (block,) = blocks([pod])
        ports = {p["name"]: p["hostPort"] for p in pod["spec"]["containers"][0]["ports"]}
        for name, first in (("handshake", block.start + 2), ("notify", block.start + 2 + count)):
            named = [name, *(f"{name}-{rank}" for rank in range(1, count))]
            assert [ports[each] for each in named] == list(range(first, first + count))
        # The ranks share out the heads, and each registers its own memory.
        assert len({rank.descriptors for rank in handshake(pod)}) == count
    answers = [complete(router_address(service), prompt) for prompt in PROMPTS]
    assert [a.text for a in answers] == [e.text for e in expected]
    service.delete_and_wait()

"""Passes on the host network: ports are shared with every other deployment's engines."""

from __future__ import annotations

import asyncio

from moriio_operator.api.ports import PortRange
from moriio_operator.control.child_cache import ChildCache
from moriio_operator.control.queue import Key
from moriio_operator.kube.kinds import Kind
from moriio_operator.kube.objects import Object

from unit.memory_kube import MemoryKube
from unit.played import Operator
from unit.samples import Json, laid_over, resource

HOST: Json = {"network": {"mode": "Host"}, "devices": {"fabric": "RoCE"}}


def deployment(name: str, change: Json | None = None) -> Json:
    made = resource(laid_over(HOST, change or {}), name=name)
    made["metadata"]["uid"] = f"uid-of-{name}"
    return made


def cluster(*names: str) -> Operator:
    return Operator(MemoryKube(*(deployment(name) for name in names)))


def of(operator: Operator, name: str) -> Operator:
    """The same cluster, looked at for another deployment."""
    return Operator(operator.kube, key=Key("team", name))


def ports(pod: Object) -> set[int]:
    [engine] = [c for c in pod["spec"]["containers"] if c["name"] == "engine"]
    assert all(port["hostPort"] == port["containerPort"] for port in engine["ports"])
    return {port["containerPort"] for port in engine["ports"]}


def disjoint(pods: list[Object]) -> bool:
    numbers = [number for pod in pods for number in ports(pod)]
    return len(numbers) == len(set(numbers))


async def test_engines_of_two_deployments_share_no_port() -> None:
    operator = cluster("llm", "two")
    await operator.settle()
    await of(operator, "two").settle()
    pods = operator.kube.of_kind("Pod")
    assert len(pods) == 4
    assert disjoint(pods)


async def test_two_passes_of_one_process_at_once_share_no_port() -> None:
    operator = cluster("llm", "two", "three")
    reconcile = operator.reconciler(ChildCache())
    names = ("llm", "two", "three")
    await asyncio.gather(*(reconcile(Key("team", name)) for name in names))
    assert len(operator.kube.of_kind("Pod")) == 6
    assert disjoint(operator.kube.of_kind("Pod"))


async def test_a_pass_that_fails_lets_the_next_one_have_ports() -> None:
    operator = cluster("llm", "two")
    reconcile = operator.reconciler(ChildCache())

    def refuse(verb: str, obj: Object) -> None:
        if (verb, obj["kind"]) == ("create", "Service") and obj["metadata"]["name"] == "llm":
            raise RuntimeError("boom")

    operator.kube.refuse = refuse
    results = await asyncio.gather(
        *(reconcile(Key("team", name)) for name in ("llm", "two")), return_exceptions=True
    )
    assert isinstance(results[0], RuntimeError)
    assert {pod["metadata"]["name"].split("-")[0] for pod in operator.kube.of_kind("Pod")} == {
        "two"
    }


async def test_a_block_is_free_when_its_pod_is_gone_and_not_when_it_is_told_to_go() -> None:
    # Eight ports: room for the engines of one deployment.
    narrow = PortRange(20_000, 20_007)
    first = Operator(MemoryKube(deployment("llm"), deployment("two")), ports=narrow)
    await first.settle()
    second = Operator(first.kube, ports=narrow, key=Key("team", "two"))
    await second.step()
    allocated = second.condition("PortsAllocated")
    assert (allocated.status, allocated.reason) == ("False", "PortsExhausted")
    assert allocated.message == (
        "0 of 2 engines have ports: no 4 contiguous ports are free in 20000-20007: of its 8 ports "
        "8 are held by engines, or known to engines that live; the admin widens the chart value "
        "ports"
    )
    mine = [p for p in first.kube.of_kind("Pod") if p["metadata"]["name"].startswith("llm")]
    for pod in mine:
        pod["metadata"]["deletionTimestamp"] = "2026-05-04T12:00:00Z"
    await second.step()
    assert second.condition("PortsAllocated").status == "False"
    for pod in mine:
        first.kube.remove("Pod", pod["metadata"]["name"])
    await second.settle()
    assert second.condition("PortsAllocated").status == "True"
    assert second.condition("Ready").status == "True"


async def test_a_pod_that_another_process_gave_the_same_ports_gives_way() -> None:
    operator = cluster("llm", "two")
    await operator.step()
    other = of(operator, "two")
    # Another process, which did not see the first one's pods.
    blind = MemoryKube(operator.kube.one("PDDeployment", "two"))
    await Operator(blind, key=Key("team", "two")).step()
    for pod in blind.of_kind("Pod"):
        pod["metadata"]["creationTimestamp"] = "2026-05-04T12:00:09Z"
        operator.kube.put(pod)
    operator.kube.put(blind.one("PDDeployment", "two"))
    assert not disjoint(operator.kube.of_kind("Pod"))
    await other.step()
    notes = [event["note"] for event in operator.kube.of_kind("Event")]
    assert any("PortsDoubled" in note and "llm-" in note for note in notes)
    await other.settle()
    assert disjoint(operator.kube.of_kind("Pod"))
    assert other.status.roles[0].failures == 0


async def test_ports_that_a_pod_of_others_holds_cost_an_engine_and_not_the_service() -> None:
    operator = cluster("llm")
    await operator.step()
    victim = operator.kube.of_kind("Pod")[0]
    words = "0/2 nodes are available: 2 node(s) didn't have free ports for the requested pod ports."
    unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    stuck = {"phase": "Pending", "conditions": [{**unscheduled, "message": words}]}
    operator.kube.put({**victim, "status": stuck})
    await operator.step()
    allocated = operator.condition("PortsAllocated")
    assert (allocated.status, allocated.reason) == ("False", "HostPortTaken")
    assert words in allocated.message
    assert victim["metadata"]["name"] in allocated.message
    assert "the admin widens the chart value ports" in allocated.message
    await operator.settle()
    assert operator.condition("PortsAllocated").status == "True"
    assert victim["metadata"]["name"] not in operator.pods()
    numbers = [ports(pod) for pod in operator.kube.of_kind("Pod")]
    assert all(not (ports(victim) & number) for number in numbers)


async def test_a_port_that_a_process_holds_gives_the_next_engine_another_block() -> None:
    operator = cluster("llm")
    await operator.settle()
    victim = operator.kube.of_kind("Pod")[0]
    said = "Address already in use: another process of this node listens on port 20002"
    end = {"exitCode": 98, "reason": "Error", "message": said}
    failed = {
        "phase": "Failed",
        "initContainerStatuses": [{"name": "preflight", "state": {"terminated": end}}],
        "containerStatuses": [
            {"name": "engine", "state": {"waiting": {"reason": "PodInitializing"}}}
        ],
    }
    operator.kube.put({**victim, "status": failed})
    await operator.step()
    allocated = operator.condition("PortsAllocated")
    assert (allocated.status, allocated.reason) == ("False", "PortInUse")
    assert said in allocated.message
    notes = [e["note"] for e in operator.kube.of_kind("Event") if e["reason"] == "EngineEnded"]
    assert any(n.startswith(f"{victim['metadata']['name']}: PortInUse") for n in notes)
    await operator.settle()
    assert operator.condition("PortsAllocated").status == "True"
    assert operator.condition("Ready").status == "True"


class Watched(MemoryKube):
    """Tells by which fields lists were asked for."""

    asked: tuple[str, ...] = ()

    async def list(
        self, kind: Kind, namespace: str | None = None, selector: str = "", fields: str = ""
    ) -> tuple[list[Object], str]:
        self.asked = (*self.asked, fields)
        return await super().list(kind, namespace, selector, fields)


async def test_settled_engines_are_not_looked_around_for() -> None:
    operator = cluster("llm")
    await operator.settle()
    watched = Watched()
    watched.objects = operator.kube.objects
    await Operator(watched).step()
    assert watched.asked
    assert not any(watched.asked)


async def test_a_pod_network_deployment_shares_nothing_with_its_neighbours() -> None:
    operator = Operator(MemoryKube(deployment("llm"), resource(name="pods")))
    await operator.settle()
    await Operator(operator.kube, key=Key("team", "pods")).settle()
    bases = sorted(min(p["containerPort"] for p in engine_ports(pod)) for pod in pods_of(operator))
    assert bases == [20_000, 20_000, 20_004, 20_004]


def pods_of(operator: Operator) -> list[Object]:
    return operator.kube.of_kind("Pod")


def engine_ports(pod: Object) -> list[Json]:
    made: list[Json] = pod["spec"]["containers"][0]["ports"]
    return made


async def test_a_range_of_its_own_is_used_and_told() -> None:
    change = {"network": {"portRange": {"start": 20_100, "end": 20_107}}}
    operator = Operator(MemoryKube(deployment("llm", change)))
    await operator.settle()
    assert all(ports(pod) <= set(range(20_100, 20_108)) for pod in operator.kube.of_kind("Pod"))
    assert operator.condition("PortsAllocated").message == "every engine has its block"
    operator.change({"decode": {"replicas": 2}})
    await operator.step()
    allocated = operator.condition("PortsAllocated")
    assert (allocated.status, allocated.reason) == ("False", "PortsExhausted")
    assert allocated.message.endswith("widen spec.network.portRange")
    assert operator.condition("Ready").status == "True"
    before = set(operator.pods())
    operator.change({"network": {"portRange": {"start": 20_100, "end": 20_111}}})
    await operator.settle()
    assert before < set(operator.pods()), "a wider range costs no engine"
    assert operator.condition("PortsAllocated").status == "True"


async def test_a_range_outside_of_the_operators_is_refused() -> None:
    change = {"network": {"portRange": {"start": 25_000, "end": 25_100}}}
    operator = Operator(MemoryKube(deployment("llm", change)))
    await operator.step()
    accepted = operator.condition("Accepted")
    assert accepted.status == "False"
    assert accepted.message == (
        "spec.network.portRange: 25000-25100 is not within the operator's range 20000-20999: use "
        "a part of that, or the admin widens the chart value ports"
    )
    assert operator.pods() == []


# Of lengths that the same cursor stands for another place in each.
ELSEWHERE, HERE = {"start": 20_200, "end": 20_215}, {"start": 20_100, "end": 20_131}


async def test_a_range_that_changes_there_and_back_gives_out_nothing_that_a_peer_knows() -> None:
    operator = Operator(MemoryKube(deployment("llm", {"network": {"portRange": HERE}})))
    await operator.settle()
    [peer] = [name for name in operator.pods() if "prefill" in name]
    known: set[int] = set()
    for portrange in (HERE, ELSEWHERE, HERE):
        operator.change({"network": {"portRange": portrange}})
        await operator.settle()
        [decode] = [p for p in operator.kube.of_kind("Pod") if p["metadata"]["name"] != peer]
        known |= ports(decode)
        operator.kube.remove("Pod", decode["metadata"]["name"])
        await operator.settle()
        [decode] = [p for p in operator.kube.of_kind("Pod") if p["metadata"]["name"] != peer]
        assert not ports(decode) & known
        assert ports(decode) <= set(range(portrange["start"], portrange["end"] + 1))


async def test_while_a_spec_is_refused_ports_come_from_the_range_of_the_day() -> None:
    operator = Operator(MemoryKube(deployment("llm", {"network": {"portRange": HERE}})))
    await operator.settle()
    operator.change({"network": {"portRange": ELSEWHERE}})
    await operator.settle()
    refused = {"metadata": {"labels": {"moriio.dev/role": "x"}}}
    operator.change({"decode": {"podTemplate": refused}})
    [decode] = [name for name in operator.pods() if "decode" in name]
    operator.kube.remove("Pod", decode)
    await operator.settle()
    assert operator.condition("Accepted").status == "False"
    [decode] = [name for name in operator.pods() if "decode" in name]
    assert min(ports(operator.kube.one("Pod", decode))) >= 20_200


async def test_a_port_of_a_sidecar_is_refused_since_it_would_be_the_nodes() -> None:
    sidecar = {"name": "exporter", "image": "x", "ports": [{"containerPort": 9100}]}
    template = {"spec": {"containers": [sidecar]}}
    operator = Operator(MemoryKube(deployment("llm", {"decode": {"podTemplate": template}})))
    await operator.step()
    assert operator.condition("Accepted").message == (
        "spec.decode.podTemplate.spec.containers[0].ports: on the host network a port that is "
        "declared is taken from the node: remove it, the container can listen without"
    )

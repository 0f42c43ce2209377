"""A second stack is rendered, served, replaced and read back like the first."""

from __future__ import annotations

import http.client
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from moriio_operator.api.ports import PortBlock
from moriio_operator.api.status import EngineState
from moriio_operator.facts.terms import Mode, Role
from moriio_operator.node.endpoints import SERVICE_LABEL, RoleService, serving
from moriio_operator.observe.engine import from_pod
from moriio_operator.runtime.main import _parser
from moriio_operator.stack import table

from unit import passes
from unit.played import Operator
from unit.samples import Json, ended, engine_pod, owner
from unit.second_stack import TYPE, RegisteredStub, StubStack
from unit.waiting import PATIENCE_S

STUB: Json = {"connector": {"type": TYPE}}
PROGRAM = Path(__file__).parents[2] / "images/engine-stub/engine_stub.py"


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(table.STACKS, TYPE, StubStack())


def engines(operator: Operator) -> dict[str, PortBlock]:
    """The blocks that engine pods read back to, by name of the pod; every pod must be an engine."""
    read = [from_pod(pod) for pod in operator.kube.of_kind("Pod")]
    return {engine.pod: engine.ports for engine in read if engine is not None}


def container(operator: Operator, pod: str) -> Json:
    found: Json = operator.kube.one("Pod", pod)["spec"]["containers"][0]
    return found


async def test_its_engines_become_ready() -> None:
    operator = passes.fresh(STUB)
    await operator.settle()
    assert operator.condition("Accepted").status == "True"
    assert operator.condition("Ready").status == "True"
    checked = operator.condition("ContractChecked")
    assert checked.message == "checked against the rules of stub 0.33.0"
    assert {engine.state for engine in operator.status.engines} == {EngineState.READY}


async def test_its_blocks_have_two_ports_and_are_read_back() -> None:
    operator = passes.fresh(STUB)
    await operator.settle()
    assert engines(operator) == {
        "llm-prefill-0": PortBlock(20_000, 2),
        "llm-decode-2": PortBlock(20_002, 2),
    }
    ports = container(operator, "llm-decode-2")["ports"]
    assert [(p["name"], p["containerPort"]) for p in ports] == [("api", 20_002), ("peer", 20_003)]
    service = operator.kube.one("Service", f"llm-decode-{operator.status.revision}")
    assert [port["name"] for port in service["spec"]["ports"]] == ["api", "peer"]


async def test_its_engines_are_probed_stopped_and_told_as_it_says() -> None:
    operator = passes.fresh(STUB)
    await operator.settle()
    made = container(operator, "llm-decode-2")
    assert made["args"] == ["--port", "20002", "--peer-port", "20003"]
    assert {"name": "STUB_ROLE", "value": "decode"} in made["env"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert made[probe]["httpGet"] == {"path": "/health", "port": "api"}
    assert made["lifecycle"]["preStop"]["sleep"]["seconds"] == 1
    assert operator.kube.one("Pod", "llm-decode-2")["spec"]["terminationGracePeriodSeconds"] == 62


async def test_one_that_ended_is_replaced_and_its_last_words_are_understood() -> None:
    operator = await passes.serving(STUB)
    pod = operator.kube.one("Pod", "llm-decode-2")
    operator.kube.put({**pod, "status": ended(1, "Error", "peer lost")})
    await operator.settle()
    assert engines(operator).keys() == {"llm-prefill-0", "llm-decode-4"}
    notes = [event["note"] for event in operator.kube.of_kind("Event")]
    assert "llm-decode-2: PeerLost: look at the peer; exit code 1; its log ends: peer lost" in notes


def test_ports_that_the_preflight_finds_taken_are_told_under_any_stack() -> None:
    pod = engine_pod(owner(STUB), "llm-decode-0", Role.DECODE, "revision", 20_000)
    pod["metadata"]["uid"] = "u1"
    end = {"exitCode": 98, "reason": "Error", "message": "Address already in use"}
    statuses = [{"name": "preflight", "state": {"terminated": end}}]
    engine = from_pod(
        {**pod, "status": {"phase": "Failed", "initContainerStatuses": statuses}}, StubStack()
    )
    assert engine is not None
    assert engine.failure is not None
    assert engine.failure.reason == "PortInUse"


async def test_a_deployment_moves_to_it_from_the_first_by_a_new_revision() -> None:
    operator = await passes.serving()
    before = operator.status.revision
    operator.change(STUB)
    await operator.settle()
    assert operator.status.revision != before
    assert set(engines(operator).values()) == {PortBlock(20_008, 2), PortBlock(20_010, 2)}
    assert operator.condition("Ready").status == "True"


async def test_its_rules_decide_what_is_refused() -> None:
    operator = passes.fresh({"connector": {"type": TYPE, "mode": "Write"}})
    await operator.settle()
    assert operator.pods() == []
    assert operator.condition("Accepted").reason == "StubReads"


async def test_its_routers_have_no_registrar_unless_it_needs_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    operator = passes.fresh(STUB)
    await operator.settle()
    [router] = operator.kube.of_kind("Deployment")
    pod = router["spec"]["template"]["spec"]
    assert not {"initContainers", "volumes"} & pod.keys()
    assert pod["containers"][0]["args"][4:6] == ["--engines", "static"]

    monkeypatch.setitem(table.STACKS, TYPE, RegisteredStub())
    other = passes.fresh(STUB)
    await other.settle()
    [router] = other.kube.of_kind("Deployment")
    [registrar] = router["spec"]["template"]["spec"]["initContainers"]
    assert _parser().parse_args(registrar["args"]).connector == TYPE


def test_a_registrar_sends_what_it_says() -> None:
    piece: Json = {
        "metadata": {"labels": {SERVICE_LABEL: "llm-d"}},
        "addressType": "IPv4",
        "ports": [{"name": "api", "port": 20_000}, {"name": "peer", "port": 20_001}],
        "endpoints": [
            {
                "addresses": ["198.18.1.7"],
                "conditions": {"serving": True},
                "targetRef": {"uid": "u1"},
            }
        ],
    }
    services = {"llm-d": RoleService(Role.DECODE, 1, stack=RegisteredStub())}
    sent = serving([piece], services, Mode.READ)["u1"]
    assert sent["zmq_address"] == "peer:198.18.1.7:20001"
    without = {**piece, "ports": piece["ports"][:1]}
    assert serving([without], services, Mode.READ) == {}


@pytest.fixture
def base() -> Iterator[int]:
    """The first of two ports that are free, one after the other."""
    for first in range(21_500, 21_900, 2):
        with ExitStack() as held:
            try:
                for port in (first, first + 1):
                    held.enter_context(closing(socket.create_server(("127.0.0.1", port))))
            except OSError:
                continue
        yield first
        return
    pytest.fail("no two ports are free")


def test_the_program_takes_the_arguments_and_serves_on_its_block(base: int) -> None:
    pod = engine_pod(owner(STUB), "llm-decode-0", Role.DECODE, "revision", base)
    arguments = pod["spec"]["containers"][0]["args"]
    with subprocess.Popen([sys.executable, PROGRAM, *arguments]) as program:
        try:
            assert _healthy(base)
            socket.create_connection(("127.0.0.1", base + 1)).close()
        finally:
            program.terminate()


def _healthy(port: int) -> bool:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except ConnectionRefusedError:
            time.sleep(0.02)
        finally:
            connection.close()
    return False

"""From EndpointSlices to registrations: who serves and does not leave, once each, by pod uid."""

from __future__ import annotations

from typing import Any

import pytest
from moriio_operator.facts.terms import Mode, Role
from moriio_operator.node.endpoints import SERVICE_LABEL, RoleService, present, selector, serving
from moriio_operator.stack.registration import Registration

from unit.samples import Json, laid_over

SERVICES = {"llm-p": RoleService(Role.PREFILL, 2), "llm-d": RoleService(Role.DECODE, 1)}
PORTS = {"http": 20_000, "reserved": 20_001, "handshake": 20_002, "notify": 20_004}


def endpoint(uid: str = "u1", address: str = "198.18.1.7", **conditions: Any) -> Json:
    states = {"ready": True, "serving": True, "terminating": False, **conditions}
    return {"addresses": [address], "conditions": states, "targetRef": {"kind": "Pod", "uid": uid}}


def piece(*endpoints: Json, service: str = "llm-d", ports: dict[str, int] | None = None) -> Json:
    named = PORTS if ports is None else ports
    return {
        "metadata": {"name": "x", "labels": {SERVICE_LABEL: service}},
        "addressType": "IPv4",
        "endpoints": list(endpoints),
        "ports": [{"name": n, "port": p, "protocol": "TCP"} for n, p in named.items()],
    }


def found(*slices: Json, mode: Mode = Mode.READ) -> dict[str, Registration]:
    return serving(slices, SERVICES, mode)


def test_the_slices_of_both_services_are_selected() -> None:
    assert selector(SERVICES) == "kubernetes.io/service-name in (llm-d,llm-p)"


def test_an_engine_that_serves_is_registered_with_its_own_ports() -> None:
    assert found(piece(endpoint())) == {
        "u1": {
            "type": "D",
            "http_address": "198.18.1.7:20000",
            "zmq_address": "host:198.18.1.7,handshake:20002,notify:20004",
            "dp_size": 1,
            "tp_size": 1,
            "transfer_mode": "READ",
        }
    }


def test_role_and_parallelism_come_from_the_service() -> None:
    made = found(piece(endpoint(), service="llm-p"), mode=Mode.WRITE)["u1"]
    assert (made["type"], made["tp_size"], made["transfer_mode"]) == ("P", 2, "WRITE")


@pytest.mark.parametrize(
    "conditions",
    [
        {"serving": False},
        {"serving": None},
        {"terminating": True},
        {"serving": False, "terminating": True},
        # With not-ready addresses published, `ready` says nothing.
        {"ready": True, "serving": False},
    ],
)
def test_an_engine_that_does_not_serve_or_leaves_is_not(conditions: Json) -> None:
    assert found(piece(endpoint(**conditions))) == {}


@pytest.mark.parametrize("missing", ["http", "handshake", "notify"])
def test_a_slice_without_a_port_that_peers_need_is_passed_over(missing: str) -> None:
    ports = {name: port for name, port in PORTS.items() if name != missing}
    assert found(piece(endpoint(), ports=ports)) == {}


@pytest.mark.parametrize(
    "change",
    [
        {"endpoints": None},
        {"ports": None},
        {"endpoints": [{"addresses": ["198.18.1.7"], "conditions": {"serving": True}}]},
        {"endpoints": [{**endpoint(), "addresses": []}]},
        {"endpoints": [{**endpoint(), "conditions": None}]},
        {"endpoints": [{**endpoint(), "targetRef": None}]},
        {"metadata": {"labels": {SERVICE_LABEL: "other"}}},
    ],
)
def test_what_cannot_be_read_is_passed_over(change: Json) -> None:
    assert found(laid_over(piece(endpoint()), change)) == {}


def test_addresses_that_the_router_cannot_dial_are_passed_over() -> None:
    assert found({**piece(endpoint(address="fd00::7")), "addressType": "IPv6"}) == {}


def test_an_engine_that_stands_in_two_slices_is_registered_once() -> None:
    assert len(found(piece(endpoint()), piece(endpoint()))) == 1


def test_engines_of_one_role_may_differ_in_ports() -> None:
    other = {name: port + 100 for name, port in PORTS.items()}
    made = found(piece(endpoint("u1")), piece(endpoint("u2", "198.18.1.8"), ports=other))
    assert {each["http_address"] for each in made.values()} == {
        "198.18.1.7:20000",
        "198.18.1.8:20100",
    }


def test_pods_are_there_whether_they_serve_or_not() -> None:
    leaving = endpoint("u2", serving=False, terminating=True)
    nobody = {"addresses": ["198.18.1.9"], "conditions": {}}
    slices = [piece(endpoint("u1"), leaving, nobody), {"metadata": {}, "endpoints": None}]
    assert present(slices) == {"u1", "u2"}

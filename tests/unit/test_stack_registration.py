"""A registration is what the router reads from vLLM's own heartbeat."""

from __future__ import annotations

import msgpack
import pytest
from moriio_operator.facts.terms import Mode, Role
from moriio_operator.stack.registration import Registration, encode
from moriio_operator.stack.vllm_moriio.registration import registration


def made(role: Role = Role.DECODE, mode: Mode = Mode.READ, tensor: int = 1) -> Registration:
    return registration(
        role, mode, host="198.18.1.7", http=20_000, handshake=20_002, notify=20_004, tensor=tensor
    )


def test_addresses_are_spelled_as_the_router_parses_them() -> None:
    assert made()["http_address"] == "198.18.1.7:20000"
    assert made()["zmq_address"] == "host:198.18.1.7,handshake:20002,notify:20004"


@pytest.mark.parametrize(("role", "word"), [(Role.PREFILL, "P"), (Role.DECODE, "D")])
def test_roles(role: Role, word: str) -> None:
    assert made(role)["type"] == word


@pytest.mark.parametrize(("mode", "word"), [(Mode.READ, "READ"), (Mode.WRITE, "WRITE")])
def test_modes_are_upper_case(mode: Mode, word: str) -> None:
    assert made(mode=mode)["transfer_mode"] == word


def test_tensor_parallelism_is_told_and_data_parallelism_is_one() -> None:
    assert (made(tensor=4)["tp_size"], made(tensor=4)["dp_size"]) == (4, 1)


def test_the_wire_carries_one_map_of_plain_types() -> None:
    unpacked = msgpack.unpackb(encode(made()))
    assert unpacked == dict(made())
    assert all(type(value) in (str, int) for value in unpacked.values())

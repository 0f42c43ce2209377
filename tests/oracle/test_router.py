"""The registrar's messages, taken by the real router from our own socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from moriio_operator.facts import router as contract
from moriio_operator.facts.terms import Mode, Role
from moriio_operator.node.registration_socket import RegistrationSocket
from moriio_operator.stack.registration import Registration
from moriio_operator.stack.vllm_moriio.registration import registration
from unit.waiting import until

from oracle.router import Router, free_ports, running

ADDED = {Role.PREFILL: "Add Prefill", Role.DECODE: "Add Decode"}
# Tensor parallel size and number of data parallel ranks.
SIZES = ((1, 1), (2, 1), (8, 1), (1, 2), (1, 8))


def argv(*, api: int, registration: str, metrics: int) -> list[str]:
    """The contract's own arguments, on ports that are free here."""
    given = contract.arguments("CacheAware", 1800, contract.discovery("moriio"))
    moved = {
        str(contract.HTTP_PORT): str(api),
        str(contract.METRICS_PORT): str(metrics),
        contract.REGISTRATION: registration,
        "0.0.0.0": "127.0.0.1",
    }
    return [moved.get(word, word) for word in given]


@pytest.fixture
def router() -> Iterator[Router]:
    api, discovery, metrics = free_ports(3)
    address = f"127.0.0.1:{discovery}"
    arguments = argv(api=api, registration=address, metrics=metrics)
    with running(arguments, api=api, registration=address) as started:
        yield started


def engine(role: Role, mode: Mode, number: int, sizes: tuple[int, int]) -> Registration:
    tensor, data = sizes
    return registration(
        role,
        mode,
        host="198.18.1.7",
        http=20_000 + number,
        handshake=21_000,
        notify=22_000,
        tensor=tensor,
        data=data,
    )


@asynccontextmanager
async def registered(router: Router, messages: list[Registration]) -> AsyncIterator[None]:
    """Register as the registrar does, each second."""
    socket = RegistrationSocket(router.registration)

    async def beat() -> None:
        while True:
            assert await socket.send(messages) == len(messages)
            await asyncio.sleep(1)

    watching = asyncio.create_task(socket.watch())
    try:
        await until(lambda: socket.connected)
        beating = asyncio.create_task(beat())
        yield
        assert not beating.done()
        beating.cancel()
    finally:
        watching.cancel()
        socket.close()


@pytest.mark.parametrize("mode", list(Mode))
async def test_the_router_takes_every_engine_that_our_socket_registers(
    router: Router, mode: Mode
) -> None:
    assert router.health() == 503
    engines = [
        (role, engine(role, mode, number + 100 * side, sizes))
        for side, role in enumerate(Role)
        for number, sizes in enumerate(SIZES)
    ]
    async with registered(router, [message for _, message in engines]):
        for role, message in engines:
            text = f"{ADDED[role]} [HTTP:{message['http_address']}"
            await asyncio.to_thread(router.wait_for_log, text)
        assert await asyncio.to_thread(router.health) == 200


async def test_a_message_of_the_other_mode_is_not_taken(router: Router) -> None:
    first = engine(Role.PREFILL, Mode.READ, 0, (1, 1))
    other = engine(Role.DECODE, Mode.WRITE, 1, (1, 1))
    async with registered(router, [first, other]):
        await asyncio.to_thread(router.wait_for_log, f"Add Prefill [HTTP:{first['http_address']}")
        await asyncio.to_thread(router.wait_for_log, "transfer_mode mismatch")
        assert await asyncio.to_thread(router.health) == 503
    assert f"Add Decode [HTTP:{other['http_address']}" not in router.log()

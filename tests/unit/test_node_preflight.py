"""The preflight tries real ports of this machine's loopback and names those that are taken."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest
from moriio_operator.api.reasons import Reason
from moriio_operator.facts.signatures import recognise
from moriio_operator.node import preflight
from moriio_operator.runtime.main import main


def listener(address: str = "127.0.0.1", family: int = socket.AF_INET) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind((address, 0))
    made.listen(1)
    return made


@pytest.fixture
def held() -> Iterator[int]:
    with closing(listener()) as sock:
        yield sock.getsockname()[1]


@pytest.fixture
def free() -> int:
    with closing(listener()) as sock:
        return int(sock.getsockname()[1])


def test_a_port_that_somebody_listens_on_is_taken_and_another_is_not(held: int, free: int) -> None:
    assert preflight.taken([free, held]) == [held]


def test_a_listener_on_all_ipv6_addresses_holds_the_port_too() -> None:
    with closing(listener("::", socket.AF_INET6)) as sock:
        port = sock.getsockname()[1]
        assert preflight.taken([port]) == [port]


def test_the_ports_are_free_again_after_the_trial(free: int) -> None:
    assert preflight.taken([free]) == []
    assert preflight.taken([free]) == []


def test_what_a_closed_connection_left_behind_is_no_obstacle() -> None:
    with closing(listener()) as sock:
        port = sock.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        served, _ = sock.accept()
        # The side that closes first keeps the port in TIME_WAIT.
        served.close()
        client.close()
    assert preflight.taken([port]) == []


def test_taken_ports_end_it_with_words_that_the_operator_knows(
    held: int, free: int, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["preflight", "--port", str(free), "--port", str(held)])
    said = capsys.readouterr().err
    assert code == errno.EADDRINUSE
    assert said == (
        f"Address already in use: another process of this node listens on port {held}\n"
    )
    signature = recognise(said)
    assert signature is not None
    assert signature.reason == Reason.PORT_IN_USE


def test_free_ports_end_it_well_and_without_a_word(
    free: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["preflight", "--port", str(free)]) == 0
    assert capsys.readouterr() == ("", "")

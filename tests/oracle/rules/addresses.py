"""Where peers find each other: facts/requests.py and stack/vllm_moriio/registration.py."""

from __future__ import annotations

from collections.abc import Iterator

from moriio_operator.facts.router import request_id, zmq_address
from moriio_operator.facts.terms import Mode, Role
from moriio_operator.stack.vllm_moriio.registration import registration

from oracle.ask import Question, ask
from oracle.release import Release, Row

SUFFIX = "0123456789abcdef" * 2
# What vLLM's API server makes of a client's request id, by endpoint.
_WRAPPED = ("{}", "cmpl-{}-0", "cmpl-{}-0-89abcdef", "chatcmpl-{}")
_PREFILL = ("198.18.1.7", 20_002, 20_010)
_DECODE = ("198.18.200.10", 30_002, 30_003)


def _registered(role: Role, host: str, handshake: int, notify: int) -> str:
    return registration(
        role, Mode.READ, host=host, http=1, handshake=handshake, notify=notify, tensor=1
    )["zmq_address"]


def _requested(_role: Role, host: str, handshake: int, notify: int) -> str:
    return zmq_address(host, handshake, notify)


def differences(release: Release) -> Iterator[Row]:
    """Let both sides find the other in the id that the router makes of two addresses."""
    sides = ((True, "prefill", _DECODE), (False, "decode", _PREFILL))
    cases = [
        (shape.format(made), *side)
        for address in (_registered, _requested)
        for made in [
            request_id(address(Role.PREFILL, *_PREFILL), address(Role.DECODE, *_DECODE), SUFFIX)
        ]
        for shape in _WRAPPED
        for side in sides
    ]
    questions = [Question("peer", {"request_id": id_, "prefill": me}) for id_, me, *_ in cases]
    for case, answer in zip(cases, ask(release.tree, questions), strict=True):
        id_, _, side, expected = case
        if answer.value != list(expected):
            subject = f"peer that {side} finds in request {id_}"
            yield Row(release.name, subject, str(answer), str(list(expected)))

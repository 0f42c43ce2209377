"""What we render against what an engine of a release makes of it, rank by rank."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from moriio_operator.facts.keys import variables
from moriio_operator.facts.terms import Mode
from moriio_operator.stack.vllm_moriio.ports import HANDSHAKE, HTTP, NOTIFY, rank_offset

from oracle.ask import Answer, Question, ask
from oracle.release import Release, Row
from oracle.spread import HOST, Case, cases

_MODES = {Mode.READ: "read", Mode.WRITE: "write"}


@dataclass(frozen=True, slots=True)
class _Rank:
    """One worker of a case."""

    case: Case
    tensor_rank: int
    data_rank: int

    def __str__(self) -> str:
        ranks = f"tensor rank {self.tensor_rank}, data rank {self.data_rank}"
        return f"{self.case.name}, {ranks}"

    @property
    def first(self) -> bool:
        """Whether it is the first of its engine."""
        return (self.tensor_rank, self.data_rank) == (0, 0)

    def question(self) -> Question:
        parallelism = self.case.spec.role(self.case.role).parallelism
        transfer = json.loads(self.case.argument("--kv-transfer-config"))
        arguments = {
            "extra": transfer["kv_connector_extra_config"],
            "ranks": {
                "tensor": parallelism.tensor,
                "tensor_rank": self.tensor_rank,
                "data": parallelism.data_local,
                "data_rank": self.data_rank,
            },
            "environment": self.case.environment,
        }
        return Question("config", arguments)

    def expected(self) -> dict[str, Any]:
        """Give what an engine is to work with, by vLLM's names."""
        connector, ports = self.case.spec.connector, self.case.ports
        offset = rank_offset(self.data_rank, self.tensor_rank)
        return {
            "local_ip": HOST,
            "proxy_ip": "",  # no heartbeat: the registrar registers the engine
            "http_port": ports[HTTP],
            "handshake_port": ports[HANDSHAKE],
            "notify_port": ports[NOTIFY] + offset,
            "tp_rank": self.tensor_rank,
            "dp_rank": self.data_rank,
            "read_mode": connector.mode is Mode.READ,
            "backend": connector.backend.value.lower(),
            "qp_per_transfer": connector.qp_per_transfer,
            "post_batch_size": connector.post_batch_size,
            "num_workers": connector.workers,
            "transfer_timeout": connector.transfer_timeout_seconds,
            "defer_timeout": connector.defer_timeout_seconds,
            "recv_abort_timeout": connector.receive_abort_timeout_seconds,
        }


def _ranks(case: Case) -> Iterator[_Rank]:
    parallelism = case.spec.role(case.role).parallelism
    for data_rank in range(parallelism.data_local):
        for tensor_rank in range(parallelism.tensor):
            yield _Rank(case, tensor_rank, data_rank)


def differences(release: Release) -> Iterator[Row]:
    """Compare every setting of every rank with what the service asked for."""
    ranks = [rank for case in cases(release.rules) for rank in _ranks(case)]
    answers = ask(release.tree, [rank.question() for rank in ranks])
    for rank, answer in zip(ranks, answers, strict=True):
        yield from _of_rank(release, rank, answer)
    yield from _variables(release, [rank for rank in ranks if rank.first])


def _of_rank(release: Release, rank: _Rank, answer: Answer) -> Iterator[Row]:
    if answer.raised is not None:
        yield Row(release.name, str(rank), answer.raised, "it reads the configuration")
        return
    fields = answer.value["fields"]
    # A setting that a release does not know is the business of the rule about keys.
    expected = {name: value for name, value in rank.expected().items() if name in fields}
    yield from _unequal(release, rank, fields, expected)
    mode = _MODES[rank.case.spec.connector.mode]
    yield from _unequal(release, rank, answer.value, {"mode": mode})


def _variables(release: Release, ranks: list[_Rank]) -> Iterator[Row]:
    """Compare what a release takes from the environment in place of keys."""
    asked = variables(release.rules)
    names = [variable.name for variable in asked]
    questions = [
        Question("variables", {"names": names, "environment": rank.case.environment})
        for rank in ranks
    ]
    for rank, answer in zip(ranks, ask(release.tree, questions), strict=True):
        expected = {variable.name: rank.expected()[variable.key] for variable in asked}
        yield from _unequal(release, rank, answer.value or {}, expected)


def _unequal(
    release: Release, rank: _Rank, found: dict[str, Any], expected: dict[str, Any]
) -> Iterator[Row]:
    for name, value in expected.items():
        if found.get(name) != value:
            subject = f"{name} of {rank} ({rank.case.spec.connector})"
            yield Row(release.name, subject, repr(found.get(name)), repr(value))

"""Ports: stack/vllm_moriio/ports.py against the offsets that a release binds and dials."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from moriio_operator.stack.vllm_moriio.ports import rank_offset

from oracle.ask import Question, ask
from oracle.release import Release, Row

SIZES = (1, 2, 3, 4, 8, 16)


@dataclass(frozen=True, slots=True)
class _Case:
    subject: str
    question: Question
    expected: int


def _cases() -> Iterator[_Case]:
    """Every rank of the engines that we make: tensor parallel alone, or data parallel alone."""
    for tensor, data in [(size, 1) for size in SIZES] + [(1, size) for size in SIZES]:
        for data_rank in range(data):
            for tensor_rank in range(tensor):
                rank = f"data rank {data_rank} of {data}, tensor rank {tensor_rank} of {tensor}"
                expected = rank_offset(data_rank, tensor_rank)
                for what, size in (("bound", None), ("dialled", tensor)):
                    arguments = {"data_rank": data_rank, "tensor_rank": tensor_rank}
                    question = Question("port_offset", {**arguments, "tensor": size})
                    yield _Case(f"port offset {what} by {rank}", question, expected)
        for data_rank in range(data):
            question = Question("local_rank", {"data_rank": data_rank, "data_local": data})
            yield _Case(f"local rank of data rank {data_rank} of {data}", question, data_rank)


def differences(release: Release) -> Iterator[Row]:
    """Compare the offset of every rank."""
    cases = list(_cases())
    answers = ask(release.tree, [case.question for case in cases])
    for case, answer in zip(cases, answers, strict=True):
        if answer.value != case.expected:
            yield Row(release.name, case.subject, str(answer), str(case.expected))

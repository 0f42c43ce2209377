"""Tensor parallel sizes that differ: facts/topology.py against a release's own mapping."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from moriio_operator.facts.terms import Attention, Mode
from moriio_operator.facts.topology import heterogeneous

from oracle.ask import Question, ask
from oracle.release import Release, Row

SIZES = (1, 2, 3, 4, 6, 8, 16)
KV_HEADS = (1, 2, 3, 4, 5, 6, 8, 16)
_FUNCTIONS = {Mode.READ: "read_topology", Mode.WRITE: "write_topology"}


@dataclass(frozen=True, slots=True)
class _Case:
    mode: Mode
    attention: Attention
    kv_heads: int
    prefill: int
    decode: int

    def __str__(self) -> str:
        model = f"{self.attention} with {self.kv_heads} KV heads"
        return f"{self.mode}, {model}, prefill tensor {self.prefill}, decode tensor {self.decode}"

    def question(self) -> Question:
        arguments = {
            "prefill": self.prefill,
            "decode": self.decode,
            "kv_heads": self.kv_heads,
            "latent": self.attention is Attention.MLA,
        }
        return Question(_FUNCTIONS[self.mode], arguments)


def differences(release: Release) -> Iterator[Row]:
    """Compare the verdict on every pair of sizes, for every number of KV heads."""
    space = product(Mode, Attention, KV_HEADS, SIZES, SIZES)
    cases = [_Case(*values) for values in space]
    answers = ask(release.tree, [case.question() for case in cases])
    for case, answer in zip(cases, answers, strict=True):
        refused = heterogeneous(
            release.rules, case.mode, case.attention, case.kv_heads, case.prefill, case.decode
        )
        if (refused is None) != (answer.raised is None):
            yield Row(release.name, str(case), answer.raised or "fine", refused or "fine")

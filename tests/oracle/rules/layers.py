"""Layers that the connector carries: facts/models.py against what its scheduler refuses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from moriio_operator.facts.models import DSPARK, drafts_beside_state, layer_problems
from moriio_operator.facts.terms import STATE_LAYERS, Layer, Mode
from moriio_operator.facts.versions import Version

from oracle.ask import Question, ask
from oracle.release import Release, Row

ATTENTION = (
    (),
    (Layer.FULL_ATTENTION,),
    (Layer.SLIDING_WINDOW,),
    tuple(sorted(set(Layer) - STATE_LAYERS)),
)
STATE = ((), *((layer,) for layer in sorted(STATE_LAYERS)))
METHODS = (None, "eagle", DSPARK)
# A refusal; anything else that is raised says that the stand-ins of the question are not enough.
_REFUSALS = ("MoRIIOError", "NotImplementedError")


@dataclass(frozen=True, slots=True)
class _Case:
    mode: Mode
    layers: tuple[Layer, ...]
    hybrid: bool
    method: str | None

    def __str__(self) -> str:
        manager = "with" if self.hybrid else "without"
        kinds = " and ".join(self.layers)
        drafts = f"drafts by {self.method}" if self.method else "no drafts"
        return f"{self.mode}, {kinds}, {manager} the hybrid cache manager, {drafts}"

    def question(self) -> Question:
        arguments = {
            "kinds": list(self.layers),
            "method": self.method,
            "read": self.mode is Mode.READ,
            "hybrid": self.hybrid,
        }
        return Question("layers", arguments)

    def refused(self, version: Version) -> str | None:
        """Say why we refuse it, if we do."""
        problems = list(layer_problems(version, self.mode, self.layers, hybrid=self.hybrid))
        if not problems and self.method is not None and STATE_LAYERS & set(self.layers):
            drafts = drafts_beside_state(version, self.method)
            return None if drafts is None else f"it {drafts}"
        return problems[0] if problems else None


def _cases() -> Iterator[_Case]:
    for mode, attention, state, hybrid, method in product(
        Mode, ATTENTION, STATE, (True, False), METHODS
    ):
        layers = (*attention, *state)
        # Without the manager layers with a state do not get as far as the connector, and drafts
        # are the connector's business only beside such layers.
        beside = method is None or state
        if layers and beside and (hybrid or not state):
            yield _Case(mode, layers, hybrid, method)


def differences(release: Release) -> Iterator[Row]:
    """Compare the verdict on every mixture of layers."""
    cases = list(_cases())
    answers = ask(release.tree, [case.question() for case in cases])
    for case, answer in zip(cases, answers, strict=True):
        ours, theirs = case.refused(release.rules), answer.raised
        unasked = theirs is not None and not theirs.startswith(_REFUSALS)
        if unasked or (ours is None) != (theirs is None):
            yield Row(release.name, str(case), theirs or "fine", ours or "fine")

"""A spec as the rules of vLLM's contract look at it."""

from __future__ import annotations

from dataclasses import dataclass

from moriio_operator.api.deployment import Spec
from moriio_operator.api.problem import Problem
from moriio_operator.api.reasons import Reason
from moriio_operator.facts.terms import STATE_LAYERS, Attention, Layer, Role
from moriio_operator.facts.versions import Version

CONFIG = "spec.model.config"


@dataclass(frozen=True, slots=True)
class Case:
    """A spec with what most rules ask of it."""

    spec: Spec
    version: Version

    @property
    def layers(self) -> frozenset[Layer]:
        """The kinds of layers that are stated; empty when none are."""
        return frozenset(self.spec.model.known_config.layers or ())

    @property
    def state(self) -> bool:
        """Whether layers with a state are among them."""
        return bool(self.layers & STATE_LAYERS)

    @property
    def shape(self) -> tuple[Attention | None, int | None, int, int]:
        """Attention and KV heads, as far as stated, and the sizes of prefill and decode."""
        facts, spec = self.spec.model.known_config, self.spec
        sizes = (spec.prefill.parallelism.tensor, spec.decode.parallelism.tensor)
        return (facts.attention, facts.kv_heads, *sizes)

    def args(self, role: Role) -> list[str]:
        """Give what a user adds to the arguments of a role."""
        return self.spec.role(role).args

    def visible_devices(self, role: Role) -> list[str]:
        """Give the GPUs that engines of a role see, in their order; empty when none are named."""
        gpu = self.spec.role(role).devices.gpu
        return gpu.visible_devices.split(",") if gpu is not None and gpu.visible_devices else []


def problem(path: str, text: str) -> Problem:
    """Say what vLLM cannot do."""
    return Problem(Reason.OUTSIDE_CONTRACT, path, text)

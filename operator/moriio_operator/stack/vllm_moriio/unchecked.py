"""What of vLLM's contract could not be checked, since nobody stated a fact that a rule needs."""

from __future__ import annotations

from collections.abc import Iterator

from moriio_operator.api.engine import Expert
from moriio_operator.facts import flags, topology
from moriio_operator.facts.terms import ROLES, Backend
from moriio_operator.stack.vllm_moriio.rule_context import CONFIG, Case


def layers(case: Case) -> Iterator[str]:
    """Say whether the kinds of layers are known."""
    if not case.layers:
        yield f"{CONFIG}.layers is not stated: whether vLLM can carry them is not checked"


def architecture(case: Case) -> Iterator[str]:
    """Say whether it is known that the model has experts, where that matters."""
    if case.spec.model.known_config.architecture is not None:
        return
    for role in ROLES:
        parallelism, where = case.spec.role(role).parallelism, f"spec.{role}.parallelism"
        if parallelism.data_local > 1:
            what = f"whether {where}.dataLocal {parallelism.data_local} fits the model"
            yield f"{CONFIG}.architecture is not stated: {what} is not checked"
        elif parallelism.expert is Expert.ENABLED:
            what = f"whether the model has experts for {where}.expert"
            yield f"{CONFIG}.architecture is not stated: {what} is not checked"


def sizes(case: Case) -> Iterator[str]:
    """Say which facts are missing to tell whether two sizes fit."""
    shape = case.shape
    missing = topology.missing_facts(case.version, case.spec.connector.mode, *shape)
    if missing:
        names = " and ".join(f"{CONFIG}.{name}" for name in missing)
        verb = "is" if len(missing) == 1 else "are"
        what = f"whether tensor {shape[2]} and {shape[3]} fit together"
        yield f"{names} {verb} not stated: {what} is not checked"


def drafts(case: Case) -> Iterator[str]:
    """Say what is not known of a draft model."""
    drafts = {role: flags.speculates(case.args(role)) for role in ROLES}
    if any(drafts.values()) and not all(drafts.values()):
        one = next(role for role, asked in drafts.items() if asked)
        yield (
            f"speculative decoding is asked for in spec.{one}.args alone: whether a draft model's "
            "layers fit the other role is not checked"
        )


def devices(case: Case) -> Iterator[str]:
    """Say what is not known of the GPUs that an engine sees."""
    if case.spec.connector.backend is not Backend.XGMI:
        return
    if not any(case.visible_devices(role) for role in ROLES):
        yield (
            "spec.<role>.devices.gpu.visibleDevices is not stated: whether prefill and decode use "
            "different GPUs of their node is not checked"
        )
    for role in ROLES:
        data = case.spec.role(role).parallelism.data_local
        if data > 1:
            # vLLM shows each data parallel rank its own GPUs alone.
            yield (
                f"spec.{role}.parallelism.dataLocal is {data}: whether each rank can open XGMI "
                "sessions to its peers' GPUs is not checked"
            )

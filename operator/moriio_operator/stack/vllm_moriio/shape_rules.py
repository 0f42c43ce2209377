"""Rules of vLLM's contract on sizes: ranks, experts, and who sees which GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from moriio_operator.api.engine import Expert
from moriio_operator.api.model import Architecture
from moriio_operator.api.problem import Problem
from moriio_operator.facts import keys, models, topology
from moriio_operator.facts.terms import ROLES, Backend
from moriio_operator.stack.vllm_moriio.rule_context import CONFIG, Case, problem


def xgmi(case: Case) -> Iterator[Problem]:
    """Check what handing GPU memory from process to process needs."""
    spec, path = case.spec, "spec.connector.backend"
    if spec.connector.backend is not Backend.XGMI:
        return
    first = keys.first("backend")
    if case.version < first:
        text = f"XGMI needs vLLM {first} or newer, and the image has {case.version}: use RDMA"
        yield problem(path, f"{text}, or a newer image")
    prefill, decode = spec.prefill.parallelism.tensor, spec.decode.parallelism.tensor
    if decode > prefill:
        yield problem(
            "spec.decode.parallelism.tensor",
            f"{decode} is larger than {prefill} of spec.prefill.parallelism.tensor, which MORI's "
            f"XGMI backend cannot serve: use at most {prefill}, or spec.connector.backend RDMA",
        )
    yield from _visible(case)
    yield from _affinity(case)


def _affinity(case: Case) -> Iterator[Problem]:
    """Check that nothing takes the place of what keeps the engines on one node."""
    for role in ROLES:
        inner = case.spec.role(role).template_spec
        if "affinity" not in inner:
            continue
        # Null, merged, would take it away.
        affinity = inner["affinity"]
        if not isinstance(affinity, dict) or "podAffinity" in affinity:
            yield problem(
                f"spec.{role}.podTemplate.spec.affinity.podAffinity",
                "with XGMI the operator keeps all engines on one node by it: remove it",
            )


def _visible(case: Case) -> Iterator[Problem]:
    """Check the GPUs that the roles see, as far as they are named."""
    prefill, decode = (case.visible_devices(role) for role in ROLES)
    own = (case.spec.prefill.parallelism.ranks, case.spec.decode.parallelism.ranks)
    unfit = topology.visibility(prefill, decode, own)
    if unfit is not None:
        path = "devices.gpu.visibleDevices"
        given = (
            f"{','.join(prefill) or 'none'} in spec.prefill.{path} and "
            f"{','.join(decode) or 'none'} here"
        )
        yield problem(f"spec.decode.{path}", f"{given} {unfit}")


def experts(case: Case) -> Iterator[Problem]:
    """Check what only a mixture of experts can have."""
    if case.spec.model.known_config.architecture is not Architecture.DENSE:
        return
    for role in ROLES:
        parallelism, path = case.spec.role(role).parallelism, f"spec.{role}.parallelism"
        if parallelism.data_local > 1:
            text = (
                f"{parallelism.data_local} must be 1 for a dense model ({CONFIG}.architecture), "
                "since vLLM starts every rank of one as rank 0, so all ranks bind the same ports: "
                f"use spec.{role}.replicas"
            )
            yield problem(f"{path}.dataLocal", text)
        if parallelism.expert is Expert.ENABLED:
            text = (
                f"Enabled, but a dense model ({CONFIG}.architecture) has no experts, and vLLM does "
                "not start: set it to Disabled"
            )
            yield problem(f"{path}.expert", text)


def sizes(case: Case) -> Iterator[Problem]:
    """Check that the sizes of prefill and decode fit together, and work at all."""
    mode, sizes = case.spec.connector.mode, case.spec.prefill.parallelism
    for defect in topology.defects(case.version, mode, sizes.tensor, sizes.data_local):
        text = f"{mode} mode of vLLM {case.version}: {defect.why}: {defect.remedy}"
        yield problem(defect.path, text)
    unfit = topology.heterogeneous(case.version, mode, *case.shape)
    if unfit is not None:
        text = f"{unfit}: make spec.prefill.parallelism.tensor and this one fit, or equal"
        yield problem("spec.decode.parallelism.tensor", text)
    prefill, decode = case.spec.prefill.parallelism.tensor, case.spec.decode.parallelism.tensor
    if unfit is None and case.state and prefill != decode and mode is models.SAME_SIZE_MODE:
        text = (
            f"{decode} differs from {prefill} of spec.prefill.parallelism.tensor, and {mode} mode "
            f"carries layers with a state ({CONFIG}.layers) between equal sizes only: make them "
            "equal"
        )
        yield problem("spec.decode.parallelism.tensor", text)

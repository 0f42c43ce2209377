"""Rules of vLLM's contract on the model and the arguments: layers, drafts, caching, agreement."""

from __future__ import annotations

from collections.abc import Iterator

from moriio_operator.api.problem import Problem
from moriio_operator.facts import flags, models
from moriio_operator.facts.terms import ROLES, Layer
from moriio_operator.facts.versions import Version
from moriio_operator.stack.vllm_moriio import command_line
from moriio_operator.stack.vllm_moriio.rule_context import CONFIG, Case, problem

_ALLOCATOR, _EXPANDABLE = "PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"
_ALLOCATOR_FIRST = Version(0, 21)
# Since then a KDA model that speculates keeps what ReplaySSM needs outside the KV cache.
_KDA_REPLAYS = Version(0, 29)


def layers(case: Case) -> Iterator[Problem]:
    """Check that the connector carries the model's kinds of layers."""
    mode = case.spec.connector.mode
    off = [flags.switched(case.args(role), models.HYBRID_FLAG) or False for role in ROLES]
    for text in models.layer_problems(case.version, mode, case.layers, hybrid=not all(off)):
        yield problem(f"{CONFIG}.layers", text)
    if case.layers - {Layer.FULL_ATTENTION} and any(off) and not all(off):
        one, other = ROLES if off[0] else reversed(ROLES)
        text = (
            f"{models.HYBRID_FLAG} is in spec.{one}.args and not in spec.{other}.args, and the two "
            "would count their blocks differently: give it to both or to neither"
        )
        yield problem(f"spec.{other}.args", text)
    if not (case.state and models.carries_state(case.version, mode)):
        return
    name, value = models.STATE_LAYOUT
    for role in ROLES:
        found = command_line.variable(case.spec.role(role), name)
        if found != value:
            text = (
                f"{name} is {found or 'not set'} and must be {value} for layers that keep a state "
                f"({CONFIG}.layers): add it with the value {value}"
            )
            yield problem(f"spec.{role}.env", text)


def speculation(case: Case) -> Iterator[Problem]:
    """Check that drafts go with the mode and the layers."""
    mode = case.spec.connector.mode
    for role in ROLES:
        args, path = case.args(role), f"spec.{role}.args"
        if not flags.speculates(args):
            continue
        method = flags.speculative_method(args)
        given = f"speculative decoding{f' ({method})' if method else ''}"
        broken = models.breaks_speculation(case.version, mode, role)
        if broken is not None:
            yield problem(path, _breaks(given, broken, mode, case.version))
        elif case.state and models.carries_state(case.version, mode):
            why = models.drafts_beside_state(case.version, method)
            if why is not None:
                text = f"{given}: a model with layers that keep a state ({CONFIG}.layers) {why}"
                yield problem(path, f"{text}: remove it")


def prefix_caching(case: Case) -> Iterator[Problem]:
    """Check that prefix caching is not asked for where it is broken."""
    mode = case.spec.connector.mode
    for role in ROLES:
        broken = models.breaks_prefix_caching(case.version, mode, role)
        if broken is not None and flags.switched(case.args(role), "--enable-prefix-caching"):
            text = _breaks("--enable-prefix-caching", broken, mode, case.version)
            yield problem(f"spec.{role}.args", text)


def _breaks(given: str, rule: models.RoleRule, mode: str, version: Version) -> str:
    return (
        f"{given} does not work in {mode} mode of vLLM {version}: {rule.why}: remove it, or use "
        f"vLLM {rule.until} or newer"
    )


def refused_flags(case: Case) -> Iterator[Problem]:
    """Check for flags that vLLM refuses beside a KV connector."""
    for role in ROLES:
        args = case.args(role)
        for flag in flags.REFUSED:
            if case.version < flag.first or not flags.switched(args, flag.name):
                continue
            if flag.name == "--use-replayssm" and _replays_kda(case, args):
                continue
            text = f"vLLM {case.version} refuses {flag.name} beside a KV connector: {flag.why}"
            yield problem(f"spec.{role}.args", f"{text}: remove it")


def allocator(case: Case) -> Iterator[Problem]:
    """Check that memory which the connector registers stays where it is."""
    if case.version < _ALLOCATOR_FIRST:
        return
    for role in ROLES:
        value = command_line.variable(case.spec.role(role), _ALLOCATOR) or ""
        if _EXPANDABLE not in value or _own_allocator(case.args(role)):
            continue
        text = (
            f"{_ALLOCATOR} holds {_EXPANDABLE}, which moves memory that the connector has "
            "registered; vLLM refuses it beside a KV connector: remove it"
        )
        yield problem(f"spec.{role}.env", text)


def _replays_kda(case: Case, args: list[str]) -> bool:
    kda = Layer.LINEAR_ATTENTION in case.layers
    return kda and case.version >= _KDA_REPLAYS and flags.speculates(args)


def _own_allocator(args: list[str]) -> bool:
    """Return whether vLLM would accept expandable segments, since the cache lies elsewhere."""
    names = ("--enable-cumem-allocator", "--enable-sleep-mode")
    return any(flags.switched(args, name) for name in names)


def agreement(case: Case) -> Iterator[Problem]:
    """Compare what prefill and decode must give alike, since vLLM does not."""
    for flag in flags.AGREED:
        if flag.state_only and not case.state:
            continue
        found = {role: flags.given(case.args(role), flag.name) for role in ROLES}
        values = [(value or flag.default).lower() for value in found.values()]
        alike = {flags.SPELLINGS.get(value, value) for value in values}
        if len(alike) > 1:
            given = " and ".join(
                f"{'none' if value is None else value} in spec.{role}.args"
                for role, value in found.items()
            )
            text = f"{flag.name} is {given}, but {flag.why}: give both roles the same"
            yield problem("spec.decode.args", text)

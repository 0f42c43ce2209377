"""Whether a spec fits what vLLM of its version can do: the tables of facts, asked of one spec.

The rules are tables in `facts`, one module per subject; `shape_rules` and `model_rules` hold them
against the fields. A rule that needs a value of the model that nobody declared goes unchecked, and
the assessment says so.
"""

from __future__ import annotations

from moriio_operator.api.deployment import Spec
from moriio_operator.api.problem import Problem
from moriio_operator.api.reasons import Reason
from moriio_operator.facts.versions import NEWEST, OLDEST, Version
from moriio_operator.stack.stack import Assessment
from moriio_operator.stack.vllm_moriio import model_rules, shape_rules, unchecked
from moriio_operator.stack.vllm_moriio.rule_context import Case

_RULES = (
    shape_rules.xgmi,
    shape_rules.experts,
    shape_rules.sizes,
    model_rules.layers,
    model_rules.speculation,
    model_rules.prefix_caching,
    model_rules.refused_flags,
    model_rules.allocator,
    model_rules.agreement,
)
_NOTES = (
    unchecked.layers,
    unchecked.architecture,
    unchecked.sizes,
    unchecked.drafts,
    unchecked.devices,
)


def assess(spec: Spec) -> Assessment:
    """Hold a spec against the contract of its version of vLLM."""
    declared = spec.engine.declared_version
    version = spec.engine.ruling_version
    if version < OLDEST:
        return Assessment(version, too_old=True, problems=(_too_old(spec, version),))
    case = Case(spec, version)
    return Assessment(
        version,
        newer=declared is not None and declared > NEWEST,
        unknown=declared is None,
        problems=tuple(problem for rule in _RULES for problem in rule(case)),
        unchecked=tuple(note for rule in _NOTES for note in rule(case)),
    )


def _too_old(spec: Spec, version: Version) -> Problem:
    by_tag = spec.engine.version is None
    path = "spec.engine.image" if by_tag else "spec.engine.version"
    text = (
        f"vLLM {version} is older than {OLDEST}, the oldest that is supported: its connector does "
        "not find its peers by what vllm-router sends: use a newer image"
        + (", or state vLLM's version in spec.engine.version" if by_tag else "")
    )
    return Problem(Reason.VERSION_TOO_OLD, path, text)

"""Compares what engines report of themselves with what the spec declares.

Rules that were checked against a wrong version or a wrong fact were not checked. Reports come from
pods in the user's namespace and may be forged: they shape the text of a condition, nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from moriio_operator.api.deployment import Spec
from moriio_operator.api.report import PDReport
from moriio_operator.facts.terms import STATE_LAYERS, Layer
from moriio_operator.facts.versions import Version, parse

# Of values that differ from a declared one as many are named: engines of one revision agree, and a
# forged report may hold hundreds.
_NAMED = 3


def differences(
    spec: Spec, reports: Iterable[PDReport], engine_uids: Collection[str]
) -> tuple[str, ...]:
    """Name each declaration that engines report otherwise, once, with the remedy.

    Only what is declared is compared, and only reports on these engines count.
    """
    facts = spec.model.known_config
    engines = [each for report in reports for each in report.engines if each.pod_uid in engine_uids]
    attention = {each.attention for each in engines if each.attention is not None}
    kv_heads = {each.kv_heads for each in engines if each.kv_heads is not None}
    return (
        *_versions(spec.engine.declared_version, {each.version or "" for each in engines}),
        *_values("attention", facts.attention, sorted(attention)),
        *_values("kvHeads", facts.kv_heads, sorted(kv_heads)),
        *_layers(facts.layers, {each.recurrent_state for each in engines}),
    )


def _versions(declared: Version | None, reported: Iterable[str]) -> Iterator[str]:
    if declared is None:
        return
    known = {version for version in map(parse, reported) if version is not None}
    # A build between two releases counts on from the one before.
    others = {version for version in known if version.minor_release != declared.minor_release}
    for version in sorted(others)[:_NAMED]:
        yield (
            f"vLLM's version is stated as {declared}, and the engine reports {version}: correct "
            "spec.engine.version"
        )


def _values(field: str, declared: object, reported: Sequence[object]) -> Iterator[str]:
    if declared is not None:
        for value in [value for value in reported if value != declared][:_NAMED]:
            yield _differs(field, declared, value)


def _layers(declared: Sequence[Layer] | None, reported: Collection[bool | None]) -> Iterator[str]:
    if declared is None:
        return
    expected = bool(STATE_LAYERS & set(declared))
    if (not expected) not in reported:
        return
    kinds = f"{Layer.STATE_SPACE} or {Layer.LINEAR_ATTENTION}"
    found = "none of those" if expected else f"layers that keep a state ({kinds})"
    yield _differs("layers", ", ".join(declared), found)


def _differs(field: str, declared: object, reported: object) -> str:
    path = f"spec.model.config.{field}"
    return f"{path} is stated as {declared}, and the engine reports {reported}: correct it"

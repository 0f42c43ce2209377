"""Two ways to lay one partial pod over another, both by Kubernetes' merge keys.

`merged` is for a checked pod template of a user: what it sets wins, as in a strategic merge patch.
Only the fields that `admission/pod_template.py` lets through arrive here, so the table is short.
`joined` is for parts of our own: neither wins, and what both set is an error of the code.
"""

from __future__ import annotations

from typing import Any

# The patch merge keys of core/v1 for the lists that we or a template may hold.
_MERGE_KEYS = {
    "claims": "name",
    "containers": "name",
    "env": "name",
    "initContainers": "name",
    "ports": "name",
    "resourceClaims": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
# Lists without names that several parts may add to.
_APPENDED = {"args", "requiredDuringSchedulingIgnoredDuringExecution"}


class CollisionError(Exception):
    """Two parts of a pod set the same field; the text is its path."""


def merged(base: Any, patch: Any, field: str = "") -> Any:
    """Give `base` with `patch` laid over it; neither is changed."""
    if isinstance(base, dict) and isinstance(patch, dict):
        return {
            **base,
            **{key: merged(base.get(key), value, key) for key, value in patch.items()},
        }
    if isinstance(base, list) and isinstance(patch, list) and field in _MERGE_KEYS:
        return _by_key(base, patch, _MERGE_KEYS[field])
    return patch


def _by_key(base: list[Any], patch: list[Any], key: str) -> list[Any]:
    laid = {item[key]: item for item in patch}
    known = [merged(item, laid.pop(item[key])) if item[key] in laid else item for item in base]
    return [*known, *laid.values()]


def joined(one: Any, other: Any, path: str = "", field: str = "") -> Any:
    """Give both in one; what `other` adds comes last, and neither is changed.

    Raises:
        CollisionError: both set the same field.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        both = dict(one)
        for key, value in other.items():
            where = f"{path}.{key}" if path else key
            both[key] = joined(one[key], value, where, key) if key in one else value
        return both
    if isinstance(one, list) and isinstance(other, list) and field in _APPENDED:
        return [*one, *other]
    if isinstance(one, list) and isinstance(other, list) and field in _MERGE_KEYS:
        return _with_named(one, other, path, field)
    raise CollisionError(path)


def _with_named(one: list[Any], other: list[Any], path: str, field: str) -> list[Any]:
    key = _MERGE_KEYS[field]
    both = {item[key]: item for item in one}
    for item in other:
        name = item[key]
        where = f"{path}[{name}]"
        if name not in both:
            both[name] = item
        elif field == "containers":
            # Several parts patch one container; all else that has a name is of one part alone.
            rest = {k: value for k, value in item.items() if k != key}
            both[name] = joined(both[name], rest, where)
        else:
            raise CollisionError(where)
    return list(both.values())

"""Merge a checked pod template into a pod, by Kubernetes' strategic rules.

Lists of named things merge by their key, maps by theirs, scalars and other lists are replaced.
Only the fields that `admission/pod_template.py` lets through arrive here, so the table is short.
"""

from __future__ import annotations

from typing import Any

# The patch merge keys of core/v1 for the lists that a template may hold.
_MERGE_KEYS = {
    "containers": "name",
    "env": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumeMounts": "mountPath",
    "volumes": "name",
}


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

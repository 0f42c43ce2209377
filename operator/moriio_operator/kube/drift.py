"""Whether a child must be applied: an idle object is never written, not even with a no-op.

Two questions, since each misses what the other finds: did we desire something else at the last
apply (a hash kept in an annotation), and does the live object still hold what we desire (a foreign
edit)? Fields that the server or others added are theirs.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from kubernetes.utils.quantity import parse_quantity

from moriio_operator.kube.objects import Object

# Maps that mean something as a whole: a key that others add to a selector empties it.
_WHOLE = frozenset({"selector"})


def stamped(desired: Object, annotation: str) -> Object:
    """Give the object with the hash of itself in the annotation of this name."""
    text = json.dumps(desired, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    metadata = desired["metadata"]
    annotations = {**(metadata.get("annotations") or {}), annotation: digest}
    return {**desired, "metadata": {**metadata, "annotations": annotations}}


def drifted(desired: Object, live: Object) -> bool:
    """Return whether a stamped object must be applied over the live one."""
    return not _covers(live, desired)


def _covers(live: Any, desired: Any) -> bool:
    """Return whether everything desired is there; the hash covers what is desired no more."""
    if isinstance(desired, dict):
        return isinstance(live, dict) and all(
            live.get(key) == value if key in _WHOLE else _covers(live.get(key), value)
            for key, value in desired.items()
        )
    if isinstance(desired, list):
        return _covers_list(live, desired)
    return bool(live == desired) or _same_quantity(live, desired)


def _same_quantity(live: Any, desired: Any) -> bool:
    """Return whether two texts are one amount: the server stores 1024Mi as 1Gi."""
    if not isinstance(live, str) or not isinstance(desired, str):
        return False
    try:
        return bool(parse_quantity(live) == parse_quantity(desired))
    except (ArithmeticError, ValueError):
        return False


def _covers_list(live: Any, desired: list[Any]) -> bool:
    if not isinstance(live, list):
        return False
    if all(isinstance(item, dict) and "name" in item for item in desired):
        # Any of that name: two owners of different kinds may share one.
        return all(any(_covers(there, item) for there in live) for item in desired)
    return len(live) == len(desired) and all(map(_covers, live, desired))

"""Whether a child must be applied: an idle object is never written, not even with a no-op.

Two questions, since each misses what the other finds: did we wish something else since the last
apply (a hash kept in an annotation), and does the live object still hold what we wish (a foreign
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
    """Tell whether a stamped object must be applied over the live one."""
    return not _covers(live, desired)


def _covers(live: Any, wish: Any) -> bool:
    """Tell whether everything wished for is there; the stamp covers what is wished no more."""
    if isinstance(wish, dict):
        return isinstance(live, dict) and all(
            live.get(key) == value if key in _WHOLE else _covers(live.get(key), value)
            for key, value in wish.items()
        )
    if isinstance(wish, list):
        return _covers_list(live, wish)
    return bool(live == wish) or _same_quantity(live, wish)


def _same_quantity(live: Any, wish: Any) -> bool:
    """Tell whether two texts are one amount: the server stores 1024Mi as 1Gi."""
    if not isinstance(live, str) or not isinstance(wish, str):
        return False
    try:
        return bool(parse_quantity(live) == parse_quantity(wish))
    except (ArithmeticError, ValueError):
        return False


def _covers_list(live: Any, wish: list[Any]) -> bool:
    if not isinstance(live, list):
        return False
    if all(isinstance(item, dict) and "name" in item for item in wish):
        # Any of that name: two owners of different kinds may share one.
        return all(any(_covers(there, item) for there in live) for item in wish)
    return len(live) == len(wish) and all(map(_covers, live, wish))

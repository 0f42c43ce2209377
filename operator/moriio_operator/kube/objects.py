"""A Kubernetes object as the API gives it: who controls it, and who wrote what of it.

Server-side apply removes a field that its manager applied before and leaves out now. Fields of a
created object belong to the same manager under another operation, `Update`, and would stay for
ever; so before an object is applied for the first time, that entry is made one of `Apply`.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Object: TypeAlias = dict[str, Any]


def controller(obj: Object) -> Object | None:
    """Give the reference to the object's controller, or None."""
    for reference in obj["metadata"].get("ownerReferences") or []:
        if reference.get("controller"):
            return dict(reference)
    return None


def controlled_by(obj: Object, uid: str) -> bool:
    """Return whether an object's controller is this very object, not one of its name."""
    reference = controller(obj)
    return reference is not None and reference["uid"] == uid


def as_applied(live: Object, manager: str) -> list[Object] | None:
    """Give the object's `managedFields` to write before its first apply; None if none is due."""
    entries = live["metadata"].get("managedFields") or []
    mine = [entry for entry in entries if _is_of(entry, manager)]
    if [entry["operation"] for entry in mine] != ["Update"]:
        return None
    return [{**e, "operation": "Apply"} if _is_of(e, manager) else e for e in entries]


def _is_of(entry: Object, manager: str) -> bool:
    return entry.get("manager") == manager and not entry.get("subresource")

"""Field ownership: from what `create` gave us to what `apply` can take away again.

Server-side apply removes a field that its manager applied before and leaves out now. Fields of a
created object belong to the same manager under another operation, `Update`, and would stay for
ever; so before an object is applied for the first time, that entry is made one of `Apply`.
"""

from __future__ import annotations

from typing import Any


def as_applied(live: dict[str, Any], manager: str) -> list[dict[str, Any]] | None:
    """Give the object's `managedFields` to write before its first apply; None if none is due."""
    entries = live["metadata"].get("managedFields") or []
    mine = [entry for entry in entries if _is_of(entry, manager)]
    if [entry["operation"] for entry in mine] != ["Update"]:
        return None
    return [{**e, "operation": "Apply"} if _is_of(e, manager) else e for e in entries]


def _is_of(entry: dict[str, Any], manager: str) -> bool:
    return entry.get("manager") == manager and not entry.get("subresource")

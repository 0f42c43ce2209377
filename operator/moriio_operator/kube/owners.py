"""Owner references: who an object's controller is."""

from __future__ import annotations

from moriio_operator.kube.objects import Object


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

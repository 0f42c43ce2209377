"""A revision: the hash of everything that prefill, decode and router must agree on.

Engines of two revisions never pair. Replica counts and the router's own settings are not part of
it: they change without new engines. Fields at their default are left out of the hash, so a newer
operator with a new defaulted field gives the same revision to the same spec.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from moriio_operator.api.deployment import Spec
from moriio_operator.api.names import REVISION_LENGTH

_NOT_AGREED: dict[str, Any] = {
    # What is known of a model changes no engine; a range of ports concerns the next ones only.
    "model": {"config", "facts"},
    "network": {"port_range"},
    "prefill": {"replicas"},
    "decode": {"replicas"},
    "router": True,
}
# The router's own settings; its image and arguments are in its template, its count is not.
_NOT_IN_ROUTER = {"replicas"}
# No vowels, nothing that looks like another: a revision is read aloud and stands in names.
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


def revision(spec: Spec) -> str:
    """Give the revision that a spec stands for."""
    return _name(
        spec.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude=_NOT_AGREED)
    )


def router_revision(spec: Spec) -> str:
    """Give the revision of the routers' template: the engines' and the router's settings."""
    router = spec.router.model_dump(
        mode="json", by_alias=True, exclude_defaults=True, exclude=_NOT_IN_ROUTER
    )
    return _name({"engines": revision(spec), "router": router})


def _name(agreed: dict[str, Any]) -> str:
    text = json.dumps(agreed, sort_keys=True, separators=(",", ":"))
    number = int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")
    letters = []
    for _ in range(REVISION_LENGTH):
        number, index = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[index])
    return "".join(letters)

"""A revision: the hash of everything that prefill, decode and router must agree on.

Engines of two revisions never pair. Replica counts and the router's own settings are not part of
it: they change without new engines. Fields at their default are left out of the hash, so a newer
operator with a new defaulted field gives the same revision to the same wish.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from moriio_operator.api.deployment import Spec
from moriio_operator.api.names import REVISION_LENGTH

_NOT_SEALED: dict[str, Any] = {
    "prefill": {"replicas"},
    "decode": {"replicas"},
    "router": True,
}
# No vowels, nothing that looks like another: a revision is read aloud and stands in names.
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


def revision(spec: Spec) -> str:
    """Give the revision that a spec stands for."""
    sealed = spec.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude=_NOT_SEALED)
    text = json.dumps(sealed, sort_keys=True, separators=(",", ":"))
    number = int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")
    letters = []
    for _ in range(REVISION_LENGTH):
        number, index = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[index])
    return "".join(letters)

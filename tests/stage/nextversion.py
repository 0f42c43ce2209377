"""A later build of the operator: another version, which renders engines and routers otherwise.

It is made of the same sources with a few words changed, and built from the same Dockerfile.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from bed.cache import REPO, digest, entry, tree_digest
from bed.images import OPERATOR, ImageSpec
from moriio_operator import __version__

VERSION = "0.2.0"
NAME = "operator-next"

# What the later operator renders, where this one renders the other.
ENGINE_LIVENESS_FAILURES = 7
ROUTER_LIVENESS_FAILURES = 4

_CHANGES = {
    "__init__.py": (f'__version__ = "{__version__}"', f'__version__ = "{VERSION}"'),
    "build/engine_template.py": (
        '"periodSeconds": 10, "timeoutSeconds": 10, "failureThreshold": 6,',
        '"periodSeconds": 10, "timeoutSeconds": 10, '
        f'"failureThreshold": {ENGINE_LIVENESS_FAILURES},',
    ),
    "build/router.py": (
        '"periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 3,',
        '"periodSeconds": 10, "timeoutSeconds": 5, '
        f'"failureThreshold": {ROUTER_LIVENESS_FAILURES},',
    ),
}


def image() -> ImageSpec:
    """Give the image of the later build."""
    sources = [REPO / "operator/moriio_operator", REPO / "operator/requirements/runtime.lock"]
    key = digest(tree_digest(sources), tree_digest([OPERATOR.dockerfile]), repr(_CHANGES))
    folder = entry(f"operator-next-{key}", "copying the sources of a later operator", _copy)
    # The Dockerfile knows no such argument: it is there for the image's hash, which the changed
    # words must be part of.
    changes = {"CHANGES": key}
    return ImageSpec(NAME, OPERATOR.dockerfile, folder, tuple(sources), build_args=changes)


def _copy(folder: Path) -> None:
    leftovers = shutil.ignore_patterns("__pycache__", "*.pyc")
    package = folder / "moriio_operator"
    shutil.copytree(REPO / "operator/moriio_operator", package, ignore=leftovers)
    shutil.copytree(REPO / "operator/requirements", folder / "requirements")
    for name, (old, new) in _CHANGES.items():
        file = package / name
        text = file.read_text()
        if text.count(old) != 1:
            raise ValueError(f"{name} holds {text.count(old)} times {old!r}: mend the change here")
        file.write_text(text.replace(old, new))

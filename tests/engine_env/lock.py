"""Resolves the images' requirements into hashed lock files.

`requirements.in` (with `overrides.txt`, where an image has one) goes through `uv pip compile` for
the images' own Python and platform. A lock names no index, so it installs from any mirror.
"""

import subprocess
from pathlib import Path

from engine_env.places import ENGINE_IMAGE, PLATFORM, PYTHON_VERSION, ROUTER_IMAGE, uv

COMMAND = "python -m engine_env lock"


def write_locks() -> list[Path]:
    """Resolve anew for every image that has a `requirements.in`; return the files written."""
    return [_write_lock(image) for image in (ENGINE_IMAGE, ROUTER_IMAGE)]


def _write_lock(image: Path) -> Path:
    lock, overrides = image / "requirements.lock", image / "overrides.txt"
    subprocess.run(
        [
            *(uv(), "pip", "compile", "--quiet", "--upgrade", "--generate-hashes"),
            *("--no-emit-index-url", "--no-annotate", "--custom-compile-command", COMMAND),
            *("--python-version", PYTHON_VERSION, "--python-platform", PLATFORM),
            *(("--overrides", str(overrides)) if overrides.exists() else ()),
            *("--output-file", str(lock), str(image / "requirements.in")),
        ],
        check=True,
    )
    return lock

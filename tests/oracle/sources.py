"""Source trees of vLLM: fetched by name and version, checked against the lock, trimmed, cached.

pip downloads and unpacks an archive, and then fails: it asks for metadata, which vLLM's build
makes only where torch is. The tree is there by then, and the hash was checked before it. A whole
tree has 150 MB; kept are the Python files outside of models and kernels, 15 MB.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from bed.cache import digest, entry
from bed.errors import BedError

_LOCK = Path(__file__).with_name("sources.lock")
# The connector's folder in a tree.
CONNECTOR = "vllm/distributed/kv_transfer/kv_connector/v1/moriio"
# Folders of `vllm` with nothing that the contract is about, and half of the bytes.
_LEFT_OUT = frozenset({"compilation", "kernels", "lora", "model_executor", "models"})
_TAIL_CHARS = 1500
# What pip names an archive's hash by when it is not the one asked for.
_FOUND = "Got "
_NO_HASH = "0" * 64


@cache
def locked() -> dict[str, str]:
    """Give the sha256 of each release in the lock, oldest release first."""
    lines = [line for line in _LOCK.read_text().splitlines() if not line.startswith("#")]
    return dict(line.split() for line in lines)


def tree(version: str) -> Path:
    """Give the source tree of a release in the lock, downloaded unless the cache has it."""
    sha256 = locked()[version]
    key = digest(sha256, *sorted(_LEFT_OUT))
    what = f"fetching the sources of vLLM {version} (some seconds)"
    return entry(f"vllm-sources-{version}-{key}", what, lambda to: fetch(version, to, sha256))


def fetch(version: str, to: Path, sha256: str | None = None) -> None:
    """Download a release and keep the tree at `to`.

    Without a hash it is the index's word that the archive is the right one.
    """
    with TemporaryDirectory(prefix=f".vllm-{version}-", dir=to.parent) as scratch:
        said = _download(version, Path(scratch), sha256)
        found = sorted(Path(scratch).glob(f"pip-*/*/{CONNECTOR}"))
        if len(found) != 1:
            raise BedError(
                f"pip gave no sources of vLLM {version} with the MoRIIO connector; it said: "
                f"{said[-_TAIL_CHARS:]}"
            )
        _keep(found[0].parents[len(Path(CONNECTOR).parts) - 1], to)


def newest() -> str:
    """Give the newest release on the package index."""
    said = _pip(["index", "versions", "vllm"])
    first = said.stdout.partition("\n")[0]  # "vllm (0.33.0)"
    if said.returncode != 0 or "(" not in first:
        raise BedError(f"pip could not list vLLM's releases: {said.stderr[-_TAIL_CHARS:]}")
    return first.partition("(")[2].partition(")")[0]


def sha256_of(version: str) -> str:
    """Ask pip for the hash of a release's archive."""
    with TemporaryDirectory(prefix="vllm-hash-") as scratch:
        said = _download(version, Path(scratch), _NO_HASH)
    _, found, rest = said.partition(_FOUND)
    if not found:
        raise BedError(f"pip named no hash of vLLM {version}; it said: {said[-_TAIL_CHARS:]}")
    return rest.split()[0]


def _download(version: str, scratch: Path, sha256: str | None) -> str:
    """Let pip unpack the archive somewhere below `scratch`; give what it said."""
    asked = scratch / "requirements.txt"
    asked.write_text(f"vllm=={version}" + (f" --hash=sha256:{sha256}\n" if sha256 else "\n"))
    arguments = [
        *("download", "--no-cache-dir", "--no-deps", "--no-binary", ":all:", "--no-clean"),
        *("--no-build-isolation", "--disable-pip-version-check", "--dest", str(scratch / "none")),
        *(("--require-hashes",) if sha256 else ()),
        *("--requirement", str(asked)),
    ]
    said = _pip(arguments, scratch)
    return said.stdout + said.stderr


def _pip(arguments: list[str], scratch: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", *arguments]
    environment = dict(os.environ) | ({"TMPDIR": str(scratch)} if scratch else {})
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def _keep(unpacked: Path, to: Path) -> None:
    """Move what is compared out of an unpacked archive."""
    for file in sorted(unpacked.glob("vllm/**/*.py")):
        place = file.relative_to(unpacked)
        if place.parts[1] not in _LEFT_OUT:
            (to / place).parent.mkdir(parents=True, exist_ok=True)
            file.rename(to / place)

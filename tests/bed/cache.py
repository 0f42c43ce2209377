"""The cache: each heavy thing in an entry of its own, named by a hash of what defines it.

An entry is made under a temporary name beside its place and renamed when complete, so an
interrupted build is never taken for a finished one, and an entry, once there, never changes.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]

# Left behind in source folders by tools, and no part of what an image is made of.
_TOOL_LEFTOVERS = frozenset(
    {"__pycache__", ".hypothesis", ".import_linter_cache", ".mypy_cache", ".pytest_cache", ".venv"}
) | {".ruff_cache"}


def cache_root() -> Path:
    """Folder of the cache: MORIIO_CACHE, or a folder in the user's own cache."""
    named = os.environ.get("MORIIO_CACHE")
    root = Path(named) if named else Path.home() / ".cache" / "moriio-operator"
    root.mkdir(parents=True, exist_ok=True)
    return root.resolve()


def progress(text: str) -> None:
    """Tell the user that something slow goes on (stderr, so that output stays machine-readable)."""
    print(f"== {text}", file=sys.stderr, flush=True)


def digest(*parts: str) -> str:
    """Return a short hash of texts; the same texts in the same order give the same hash."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(hashlib.sha256(part.encode()).digest())
    return whole.hexdigest()[:12]


def _files(path: Path) -> Iterator[Path]:
    if path.is_file() or path.is_symlink():
        yield path
        return
    for entry in sorted(path.iterdir()):
        if entry.name not in _TOOL_LEFTOVERS and not entry.name.endswith((".egg-info", ".pyc")):
            yield from _files(entry)


def tree_digest(paths: Iterable[Path], relative_to: Path = REPO) -> str:
    """Hash names, execute bits and contents of files and folders, wherever the tree stands."""
    whole = hashlib.sha256()
    # A path may be spelled with `..` in it, as a module's `__file__` is under pytest.
    plain = (Path(os.path.normpath(path)) for path in paths)
    for file in (file for path in plain for file in _files(path)):
        executable = "x" if os.access(file, os.X_OK) else "-"
        content = str(file.readlink()).encode() if file.is_symlink() else file.read_bytes()
        whole.update(f"{file.relative_to(relative_to)}\0{executable}\0".encode())
        whole.update(hashlib.sha256(content).digest())
    return whole.hexdigest()[:12]


@contextmanager
def exclusive(name: str) -> Iterator[None]:
    """Let one process at a time work on what `name` stands for; others wait for it."""
    folder = cache_root() / "locks"
    folder.mkdir(exist_ok=True)
    with (folder / name).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def discard(path: Path) -> None:
    """Remove a file or a folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def entry(relative: str, what: str, build: Callable[[Path], None]) -> Path:
    """Return the entry `relative`, made by `build(temporary path)` unless it is there already."""
    final = cache_root() / relative
    if final.exists():
        return final
    with exclusive(relative.replace("/", "_") + ".lock"):
        if final.exists():  # another process made it while this one waited for the lock
            return final
        progress(f"{what}: {final}")
        final.parent.mkdir(parents=True, exist_ok=True)
        partial = final.with_name(f".partial-{final.name}")
        discard(partial)
        try:
            build(partial)
            partial.rename(final)
        except BaseException:
            discard(partial)
            raise
    return final

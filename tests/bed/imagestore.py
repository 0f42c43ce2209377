"""containerd's store with images in it, imported once and handed to every node.

Importing an archive of 250 MB takes ten seconds a node. So a set of archives is imported once, by a
containerd of its own, into a template in the cache. A node gets its own databases, and links to the
template's contents and layers: containerd never changes those, and removing one removes the link.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from bed import nodeconfig
from bed.cache import cache_root, digest, entry, tree_digest
from bed.command import run
from bed.oci import one_file_layer, write_archive
from bed.sandbox import sandboxed

_PAUSE_SOURCE = Path(__file__).resolve().parent / "pause"
_CONTENT = Path("io.containerd.content.v1.content/blobs/sha256")
_SNAPSHOTS = Path("io.containerd.snapshotter.v1.overlayfs/snapshots")
_START_TRIES = 100


def _compile_pause(archive: Path) -> None:
    program = archive.with_suffix(".program")
    source = _PAUSE_SOURCE / "pause.c"
    run(["gcc", "-static", "-Os", "-s", "-Wall", "-Wextra", "-Werror", "-o", program, source])
    layer = one_file_layer("pause", program.read_bytes())
    write_archive(archive, nodeconfig.PAUSE_REFERENCE, layer, ["/pause"])
    program.unlink()


def pause_archive() -> Path:
    """Return the OCI archive of the image that holds pods' namespaces."""
    key = tree_digest([_PAUSE_SOURCE])
    return entry(f"images/pause-{key}.tar", "building the pause image", _compile_pause)


def import_script(settings: Path, archives: Sequence[Path]) -> str:
    """Return a script that imports archives with a containerd of its own, within a sandbox."""
    ctr = f"ctr -a {nodeconfig.CONTAINERD_SOCKET} -n k8s.io"
    lines = [
        "set -eu",
        "mount -t tmpfs tmpfs /run",
        f"containerd -c {settings}/containerd.toml > {settings}/containerd.log 2>&1 &",
        "tries=0",
        f"until {ctr} version > /dev/null 2>&1; do",
        f"  tries=$((tries + 1)); [ $tries -lt {_START_TRIES} ] || "
        f"{{ tail -n 5 {settings}/containerd.log >&2; exit 1; }}",
        "  sleep 0.1",
        "done",
        *(f"{ctr} images import {shlex.quote(str(archive))} > /dev/null" for archive in archives),
        # Asked to end, so that its databases are complete; the sandbox ends with this script.
        "kill $!",
        "wait $! || true",
    ]
    return "\n".join(lines)


def _import(root: Path, archives: Sequence[Path]) -> None:
    settings = root.with_name(f"{root.name}-settings")
    settings.mkdir(parents=True, exist_ok=True)
    try:
        (settings / "containerd.toml").write_text(nodeconfig.containerd(root, settings))
        run(sandboxed(["bash", "-c", import_script(settings, archives)]))
    finally:
        shutil.rmtree(settings)


def _identity(archive: Path) -> str:
    seen = archive.stat()
    return f"{archive.resolve()} {seen.st_size} {seen.st_mtime_ns}"


def template(archives: Sequence[Path]) -> Path:
    """Return a containerd root that holds the pause image and the archives' images."""
    wanted = sorted({pause_archive(), *archives})
    key = digest(*map(_identity, wanted))
    what = f"importing {len(wanted)} images into containerd's store"
    made = entry(f"imagestore/{key}", what, lambda root: _import(root, wanted))
    os.utime(made)  # when it was last used, for `prune`
    return made


def prune(keep: int = 3) -> None:
    """Drop the templates not used for longest: each change of an image makes a new one.

    The caller holds the claim on the bed, so no living bed's nodes have links into a template.
    """
    folder = cache_root() / "imagestore"
    stores = sorted(folder.glob("[!.]*"), key=lambda store: store.stat().st_mtime)
    for store in stores[:-keep]:
        # Renamed first: half of a store, left by a kill, must not pass for a whole one.
        store.rename(store.with_name(f".dropped-{store.name}"))
    for dropped in folder.glob(".dropped-*"):
        shutil.rmtree(dropped)


def clone(source: Path, root: Path) -> None:
    """Make a node's containerd root out of a template."""
    for linked in (_CONTENT, _SNAPSHOTS):
        (root / linked).mkdir(parents=True)
        for item in (source / linked).iterdir():
            (root / linked / item.name).symlink_to(item)
    for database in source.glob("*/*.db"):
        copy = root / database.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(database, copy)

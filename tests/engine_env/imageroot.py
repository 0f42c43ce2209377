"""Runs a program of the environment as a pod would: in the base image's root file system.

The base is unpacked into a folder of the cache; in namespaces of its own the folders asked for are
bound into it, and the program starts there by chroot. So it is the image's interpreter that
compiles the bytecode and writes the model, whatever Python the host has, and no mount outlives it.
"""

import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from bed.baseimage import base_tarball
from bed.cache import cache_root, discard, exclusive
from bed.command import run
from bed.errors import BedError
from bed.sandbox import sandboxed

_DEVICES = ("null", "zero", "random", "urandom")
# A build must not depend on the caller's settings.
_ENVIRONMENT = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/tmp", "LC_ALL": "C.UTF-8"}


def run_in_image(binds: Mapping[str, Path], command: Sequence[str]) -> None:
    """Run `command` in a fresh root with `binds` (path inside: folder outside); show its output."""
    base, root = base_tarball(), cache_root() / "imageroot"
    with exclusive("imageroot.lock"):
        discard(root)  # what a killed build left; its mounts are gone with its namespace
        root.mkdir()
        run(["tar", "-xpf", base, "-C", root])
        enter = f"exec chroot {shlex.quote(str(root))} {shlex.join(command)}"
        script = f"{_mounts(root, binds)}\n{enter}"
        # The program's stdout goes to ours on stderr: stdout is for the result.
        done = subprocess.run(
            sandboxed(["sh", "-euc", script]), check=False, env=_ENVIRONMENT, stdout=2
        )
        discard(root)
    if done.returncode != 0:
        raise BedError(f"`{shlex.join(command)}` ended with code {done.returncode}, see above")


def _mounts(root: Path, binds: Mapping[str, Path]) -> str:
    lines = [f"mount -t proc proc {shlex.quote(str(root / 'proc'))}"]
    for device in _DEVICES:
        node = shlex.quote(str(root / "dev" / device))
        lines.append(f"touch {node} && mount --bind /dev/{device} {node}")
    for inside, outside in binds.items():
        at = shlex.quote(str(root / inside.lstrip("/")))
        lines.append(f"mkdir -p {at} && mount --bind {shlex.quote(str(outside))} {at}")
    return "\n".join(lines)

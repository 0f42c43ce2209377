"""Running programs that mount things, so that no mount and no process of theirs can stay behind.

They get a mount and a PID namespace of their own: when the first process ends, or is killed, or its
parent is, the kernel kills the others and drops the mounts.
"""

from __future__ import annotations

from bed.command import Argv

_UNSHARE = (
    "unshare",
    "--mount",
    "--propagation=private",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
)


def sandboxed(argv: Argv) -> list[str]:
    """Return the command that runs `argv` in namespaces of its own."""
    return [*_UNSHARE, *map(str, argv)]

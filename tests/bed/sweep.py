"""Removing a bed, whole or in pieces, and the inventory that proves it gone.

Nothing is asked to end politely: no file of the bed is kept, and everything that a process of the
bed made on the host is removed below, by name.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bed import addresses, cgroups, network
from bed.addresses import LINK_PREFIX
from bed.cache import discard
from bed.processes import kill, members

_KEPT = "lock"


@dataclass(frozen=True, slots=True)
class Inventory:
    """Everything on the host that a bed may leave behind."""

    processes: frozenset[str]
    mounts: frozenset[str]
    namespaces: frozenset[str]
    cgroups: frozenset[str]
    links: frozenset[str]
    routes: frozenset[str]
    files: frozenset[str]


def sweep(state: Path) -> None:
    """Remove the bed at `state`, in whatever condition it is; the caller holds the claim on it."""
    # A process that execs at the moment of a look shows no mark, so one look is not enough.
    looks_without = 0
    while looks_without < 2:
        found = [member for member in members() if member.state == state]
        kill(found)
        looks_without = 0 if found else looks_without + 1
        time.sleep(0.05)
    network.remove_all()
    cgroups.remove()
    for item in state.iterdir():
        if item.name != _KEPT:
            discard(item)


def inventory(state: Path) -> Inventory:
    """List what is there of a bed, for comparison with another time."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return Inventory(
        processes=frozenset(f"{m.name} {m.pid}" for m in members()),
        mounts=frozenset(line.split(" ", 3)[3] for line in mounts if _is_of_a_bed(line, state)),
        namespaces=_namespaces(),
        cgroups=frozenset(map(str, cgroups.left())),
        links=frozenset(network.links()),
        routes=frozenset(r for r in network.host_routes() if LINK_PREFIX in r),
        files=frozenset(item.name for item in state.iterdir() if item.name != _KEPT)
        if state.exists()
        else frozenset(),
    )


def _is_of_a_bed(mount: str, state: Path) -> bool:
    places = (str(state), "/var/lib/kubelet", "/var/lib/cni", "/run/netns", "/run/containerd")
    return any(place in mount for place in places)


def _namespaces() -> frozenset[str]:
    """Return the network namespaces that hold one of the bed's addresses.

    Any process may keep a namespace, marked or not, so all are asked for theirs.
    """
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # the process ended while being looked at
            if addresses.POD_NETWORK.split(".0.0")[0] in (process / "net/fib_trie").read_text():
                found.add(str((process / "ns/net").readlink()))
    return frozenset(found)

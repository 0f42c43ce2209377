"""The cgroups of the nodes: one a node and hierarchy, under which its kubelet makes the pods'.

Hosts differ: version 2 alone, version 1 with one hierarchy a controller, or both at once (hybrid).
The mount table tells which there are.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bed.addresses import CGROUP_PREFIX
from bed.command import wait_until


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """A mounted cgroup hierarchy."""

    root: Path
    version: int

    @property
    def is_cpuset_v1(self) -> bool:
        """Whether new groups start with no processor and no memory node in here."""
        return self.version == 1 and (self.root / "cpuset.cpus").exists()


def hierarchies(mountinfo: str) -> list[Hierarchy]:
    """Pick the cgroup hierarchies out of a mount table (the text of /proc/self/mountinfo)."""
    found: dict[Path, Hierarchy] = {}
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        kind = after.split(" ")[0]
        if kind in ("cgroup", "cgroup2"):
            root = Path(before.split(" ")[4])
            found[root] = Hierarchy(root, 2 if kind == "cgroup2" else 1)
    return list(found.values())


def _mounted() -> list[Hierarchy]:
    return hierarchies(Path("/proc/self/mountinfo").read_text())


def _enable_controllers(group: Path) -> None:
    available = (group / "cgroup.controllers").read_text().split()
    for controller in available:
        # One write a controller: a host may hold back some (cpu with real-time tasks), and the
        # kubelet complains by name about those that it cannot do without.
        with suppress(OSError):
            (group / "cgroup.subtree_control").write_text(f"+{controller}")


def create(name: str) -> None:
    """Make a node's cgroup in every hierarchy, fit to hold processes."""
    for hierarchy in _mounted():
        if hierarchy.version == 2:
            _enable_controllers(hierarchy.root)
        group = hierarchy.root / name
        group.mkdir(exist_ok=True)
        if hierarchy.version == 2:
            _enable_controllers(group)
        if hierarchy.is_cpuset_v1:
            for file in ("cpuset.cpus", "cpuset.mems"):
                (group / file).write_text((hierarchy.root / file).read_text())


def left(pattern: str = f"{CGROUP_PREFIX}*") -> list[Path]:
    """Every cgroup of a bed's node that there is, or those of the nodes that the pattern fits."""
    return [path for h in _mounted() for path in h.root.glob(pattern) if path.is_dir()]


def _deepest_first(group: Path) -> Iterator[Path]:
    for folder, _, _ in os.walk(group, topdown=False):
        yield Path(folder)


def _removed(group: Path) -> bool:
    for folder in _deepest_first(group):
        with suppress(FileNotFoundError):
            try:
                folder.rmdir()
            except OSError:
                return False  # its processes have been killed, and some have not ended yet
    return not group.exists()


def remove(pattern: str = f"{CGROUP_PREFIX}*") -> None:
    """Remove nodes' cgroups, as soon as the killed processes in them are gone."""
    groups = left(pattern)
    wait_until(
        lambda: all(_removed(group) for group in groups),
        timeout_s=30,
        what=f"the processes in {', '.join(map(str, groups))} to end",
    )

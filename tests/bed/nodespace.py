"""The namespaces of a node, and what is mounted in them.

A node is a network, a mount and a PID namespace that one `tini` holds as its process 1. Killing it
kills every process in there, as a power cut would, and the mounts and the network go with it.

The node sees the host's files, but has folders of its own wherever Kubernetes writes to a fixed
path, a /dev of its own with the stand-in devices, and a /mnt that holds only what the bed puts
there.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# The kubelet sets these to values of its choice, which would outlive the bed on the host. It leaves
# alone what it finds right, and what it finds here are files that say so.
_KERNEL_SETTINGS: Mapping[str, int] = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}
_HOST_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "kmsg", "fuse")
# Character device 1:3 is /dev/null: opening and reading works, and nothing is behind it.
_STAND_IN = "c 1 3"


@dataclass(frozen=True, slots=True)
class NodeFolders:
    """The files of one node, on the host."""

    root: Path

    @property
    def kubelet(self) -> Path:
        """The node's /var/lib/kubelet."""
        return self.root / "kubelet"

    @property
    def cni(self) -> Path:
        """The node's /var/lib/cni."""
        return self.root / "cni"

    @property
    def logs(self) -> Path:
        """The node's /var/log, with the pods' logs."""
        return self.root / "log"

    @property
    def scratch(self) -> Path:
        """The node's /mnt/scratch, which pods may write to."""
        return self.root / "scratch"

    @property
    def containerd(self) -> Path:
        """containerd's root: images, snapshots and their databases."""
        return self.root / "containerd"

    @property
    def settings(self) -> Path:
        """Configuration files of the node's programs."""
        return self.root / "settings"

    @property
    def stage(self) -> Path:
        """Where mounts are put together before they move to their place."""
        return self.root / "stage"

    @property
    def is_up(self) -> Path:
        """Appears when everything is mounted."""
        return self.root / "up"

    def create(self) -> None:
        """Make the folders."""
        for folder in (self.kubelet, self.cni, self.logs, self.scratch, self.containerd):
            folder.mkdir(parents=True, exist_ok=True)
        for folder in (self.settings, self.stage):
            folder.mkdir(exist_ok=True)


def _own_folders(folders: NodeFolders) -> list[str]:
    lines = []
    for inside, outside in (
        ("/var/lib/kubelet", folders.kubelet),
        ("/var/lib/cni", folders.cni),
        ("/var/log", folders.logs),
    ):
        lines += [f"mkdir -p {inside}", f"mount --bind {outside} {inside}"]
    # Sockets, network namespaces of pods, address leases and the lock of iptables. Gone at a node's
    # end, as on a machine that starts anew.
    return [*lines, "mount -t tmpfs -o mode=755 tmpfs /run"]


def _kernel_settings(folders: NodeFolders) -> list[str]:
    lines = []
    for name, value in _KERNEL_SETTINGS.items():
        stand_in = folders.settings / name.replace("/", "-")
        lines.append(
            f"if [ -e /proc/sys/{name} ]; then"
            f" echo {value} > {stand_in}; mount --bind {stand_in} /proc/sys/{name}; fi"
        )
    return lines


def _dev(stage: Path, devices: Sequence[str]) -> list[str]:
    dev = stage / "dev"
    lines = [
        f"mkdir -p {dev}",
        f"mount -t tmpfs -o mode=755 tmpfs {dev}",
        f"cd {dev}",
        "mkdir pts shm mqueue",
        *(f"if [ -e /dev/{name} ]; then cp -a /dev/{name} {name}; fi" for name in _HOST_DEVICES),
        "ln -s pts/ptmx ptmx",
        "ln -s /proc/self/fd fd",
        "mount -t devpts -o newinstance,ptmxmode=666 devpts pts",
        "mount -t tmpfs tmpfs shm",
        "mount -t mqueue mqueue mqueue",
    ]
    for device in devices:
        name = device.removeprefix("/dev/")
        lines += [f"mkdir -p $(dirname {name})", f"mknod -m 666 {name} {_STAND_IN}"]
    return [*lines, "cd /", f"mount --move {dev} /dev"]


def _mnt(stage: Path, scratch: Path, mounts: Mapping[str, Path]) -> list[str]:
    mnt = stage / "mnt"
    lines = [
        f"mkdir -p /mnt {mnt}",
        f"mount -t tmpfs -o mode=755 tmpfs {mnt}",
        f"mkdir {mnt}/scratch",
        f"mount --bind {scratch} {mnt}/scratch",
    ]
    for inside, folder in mounts.items():
        at = shlex.quote(str(mnt / inside.removeprefix("/mnt/")))
        lines += [
            f"mkdir -p {at}",
            f"mount --bind {shlex.quote(str(folder))} {at}",
            f"mount -o remount,bind,ro {at}",
        ]
    # Bound before the tmpfs covers /mnt, so that folders which the host keeps there can be given.
    return [*lines, f"mount --move {mnt} /mnt"]


def setup_script(folders: NodeFolders, devices: Sequence[str], mounts: Mapping[str, Path]) -> str:
    """Return the script that a node's first process runs before it becomes `tini`."""
    lines = [
        "set -eu",
        *_own_folders(folders),
        *_kernel_settings(folders),
        *_dev(folders.stage, devices),
        *_mnt(folders.stage, folders.scratch, mounts),
        # From here on containers may ask for mounts that show through to the node.
        "mount --make-rshared /",
        f"touch {folders.is_up}",
        "exec tini -g -- sleep infinity",
    ]
    return "\n".join(lines)


def hold(script: str) -> list[str]:
    """Return the command that makes the namespaces and runs the script as their process 1."""
    namespaces = ("--net", "--mount", "--propagation=private", "--pid", "--fork", "--kill-child")
    return ["unshare", *namespaces, "--mount-proc", "bash", "-c", script]


def enter(init_pid: int) -> list[str]:
    """Return the words before a command that shall run in the node."""
    return ["nsenter", "-t", str(init_pid), "--mount", "--net", "--pid", "--"]

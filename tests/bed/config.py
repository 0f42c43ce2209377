"""What a user may choose about a bed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from bed.errors import BedError

PolicyEngine = Literal["kube-router", "none"]

# Node addresses are 198.18.0.11 upwards and pod ranges 198.18.11.0/24 upwards (`addresses.py`).
_MAX_NODES = 9
_FIRST_RENDER_MINOR = 128


@dataclass(frozen=True, slots=True)
class NodeDevices:
    """Stand-ins for the accelerators and RDMA devices of a node: device files that do nothing."""

    gpus: int = 1
    nics: int = 1

    def paths(self) -> list[str]:
        """Every device file that a node has, as the drivers name them."""
        render = [f"/dev/dri/renderD{_FIRST_RENDER_MINOR + index}" for index in range(self.gpus)]
        uverbs = [f"/dev/infiniband/uverbs{index}" for index in range(self.nics)]
        shared = ["/dev/kfd"] * bool(self.gpus) + ["/dev/infiniband/rdma_cm"] * bool(self.nics)
        return [*shared, *render, *uverbs]


@dataclass(frozen=True, slots=True)
class BedConfig:
    """A bed's shape; the defaults are what most tests need.

    `mounts` maps a path under /mnt, as pods name it in a hostPath, to a folder of the host that
    every node shows there read-only. `images` are OCI archives that every node has from the start.
    """

    nodes: int = 2
    devices: NodeDevices | None = field(default_factory=NodeDevices)
    policy_engine: PolicyEngine = "kube-router"
    mounts: Mapping[str, Path] = field(default_factory=dict)
    images: Sequence[Path] = ()

    def checked(self) -> BedConfig:
        """Return the configuration itself, if a bed can be made of it."""
        if not 1 <= self.nodes <= _MAX_NODES:
            raise BedError(f"nodes={self.nodes}: a bed has 1 to {_MAX_NODES} nodes")
        for inside, folder in self.mounts.items():
            name = inside.removeprefix("/mnt/")
            if not name or name.startswith("/") or ".." in name or name.split("/")[0] == "scratch":
                raise BedError(
                    f"mounts[{inside!r}]: name a path under /mnt other than /mnt/scratch"
                )
            if not folder.is_dir():
                raise BedError(
                    f"mounts[{inside!r}]: the host has no folder {folder}; make it first"
                )
        for archive in self.images:
            if not archive.is_file():
                raise BedError(f"images: {archive} is not there; build it with bed.images first")
        return self

    def to_json(self) -> str:
        """Return the configuration as text, for whoever attaches to the bed later."""
        return json.dumps(
            {
                "nodes": self.nodes,
                "devices": asdict(self.devices) if self.devices else None,
                "policy_engine": self.policy_engine,
                "mounts": {inside: str(folder) for inside, folder in self.mounts.items()},
                "images": [str(archive) for archive in self.images],
            }
        )

    @classmethod
    def from_json(cls, text: str) -> BedConfig:
        """Read what `to_json` wrote."""
        value = json.loads(text)
        return cls(
            nodes=value["nodes"],
            devices=NodeDevices(**value["devices"]) if value["devices"] else None,
            policy_engine=value["policy_engine"],
            mounts={inside: Path(folder) for inside, folder in value["mounts"].items()},
            images=tuple(map(Path, value["images"])),
        )

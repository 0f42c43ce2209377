"""kubectl and helm, as the cluster's admin, with their caches in the bed's own folder."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bed.command import run

# A control plane that hangs must not hang a test run; nothing asked of it takes so long.
_TIMEOUT_S = 240


@dataclass(frozen=True, slots=True)
class Client:
    """The tools of whoever works with a cluster."""

    binaries: Path
    kubeconfig: Path

    def environment(self) -> dict[str, str]:
        """Environment in which kubectl and helm know this cluster, and write nothing elsewhere."""
        caches = self.kubeconfig.parent / "client-cache"
        return {
            **os.environ,
            "KUBECONFIG": str(self.kubeconfig),
            "KUBECACHEDIR": str(caches / "kubectl"),
            "HELM_CACHE_HOME": str(caches / "helm-cache"),
            "HELM_CONFIG_HOME": str(caches / "helm-config"),
            "HELM_DATA_HOME": str(caches / "helm-data"),
        }

    def program(self, name: str) -> str:
        """Path of one of the bed's programs."""
        return str(self.binaries / name)

    def kubectl(self, *args: str, stdin: str | None = None, check: bool = True) -> str:
        """Run kubectl and return its output; a failure is a BedError with what it said."""
        argv = [self.program("kubectl"), *args]
        return run(argv, stdin=stdin, env=self.environment(), check=check, timeout_s=_TIMEOUT_S)

    def kubectl_json(self, *args: str) -> Any:
        """Run kubectl with JSON output and return what it says."""
        return json.loads(self.kubectl(*args, "-o", "json"))

    def helm(self, *args: str) -> str:
        """Run helm and return its output; a failure is a BedError with what it said."""
        argv = [self.program("helm"), *args]
        return run(argv, env=self.environment(), timeout_s=_TIMEOUT_S)

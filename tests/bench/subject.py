"""What is measured: the PDDeployments, and the processes that bring them about.

Operator and bare client are processes of the same kind: Python, a service account of their own,
one after the other on an otherwise quiet bed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from bed import played
from bed.cluster import Bed
from bed.command import wait_until
from stage.operator_process import settings

NAMESPACE = "bench"
CREATOR = "creator"
OPERATOR = "operator"
BARE = "bare"
ACCOUNTS = (CREATOR, OPERATOR, BARE)
REPLICAS = 2
# No image is ever pulled: nothing runs on a played node.
_IMAGE = "localhost/moriio/none:bench"
_TOKEN_LIFE = "8h"
_STOP_S = 20
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")

Manifest = dict[str, Any]


def manifest(name: str, *, timeout_s: int = 600) -> Manifest:
    """Give a PDDeployment of two prefill and two decode engines and one router."""
    role = {"replicas": REPLICAS, "podTemplate": {"spec": {"nodeSelector": played.LABEL}}}
    return {
        "apiVersion": "moriio.dev/v1alpha1",
        "kind": "PDDeployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "model": {"name": "bench/model", "servedName": "bench"},
            "engine": {"image": _IMAGE},
            "connector": {"mode": "Write"},
            "prefill": role,
            "decode": role,
            "devices": {"fabric": "InfiniBand"},
            "router": {"image": _IMAGE, "requestTimeoutSeconds": timeout_s},
            "network": {"mode": "Pod"},
        },
    }


def user(account: str) -> str:
    """Name an account as the audit log does."""
    return f"system:serviceaccount:{NAMESPACE}:{account}"


def admit(bed: Bed, folder: Path) -> dict[str, Path]:
    """Make the namespace and an account each for who takes part; give their kubeconfigs."""
    bed.kubectl("create", "namespace", NAMESPACE)
    given = {}
    for account in ACCOUNTS:
        bed.kubectl("-n", NAMESPACE, "create", "serviceaccount", account)
        subject = f"--serviceaccount={NAMESPACE}:{account}"
        bed.kubectl("create", "clusterrolebinding", account, "--clusterrole=cluster-admin", subject)
        token = bed.kubectl("-n", NAMESPACE, "create", "token", account, "--duration", _TOKEN_LIFE)
        config = json.loads(bed.kubeconfig.read_text())
        config["users"] = [{"name": account, "user": {"token": token.strip()}}]
        config["contexts"][0]["context"]["user"] = account
        given[account] = folder / f"{account}.kubeconfig"
        given[account].write_text(json.dumps(config))
    return given


def write_settings(path: Path, resync_s: float) -> Path:
    """Write the operator's settings: one namespace, all else as an admin gets it."""
    path.write_text(json.dumps(settings(NAMESPACE, resync_s=resync_s)))
    return path


class Process:
    """A process that is measured, from its start to its end."""

    def __init__(self, words: list[str], kubeconfig: Path, log: Path) -> None:
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
        self._log = log
        with log.open("ab") as out:
            self._child = subprocess.Popen(
                [sys.executable, *words], env=environment, stdout=out, stderr=out
            )

    def await_log(self, text: str, timeout_s: float = 60) -> None:
        """Wait until it said something."""

        def said() -> bool:
            self.check()
            return text in self._log.read_text()

        wait_until(said, timeout_s=timeout_s, what=f"{text!r} in {self._log}")

    def check(self) -> None:
        """Raise if it ended by itself, with what it said last."""
        if self._child.poll() is not None:
            tail = "\n".join(self._log.read_text().splitlines()[-15:])
            raise RuntimeError(f"ended with code {self._child.returncode}:\n{tail}")

    def cpu_s(self) -> float:
        """Give the processor seconds that it has used."""
        fields = Path(f"/proc/{self._child.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S

    def memory_mib(self) -> float:
        """Give its resident memory."""
        status = Path(f"/proc/{self._child.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    def stop(self) -> None:
        """End it, and wait for that."""
        self._child.send_signal(signal.SIGTERM)
        try:
            self._child.wait(_STOP_S)
        finally:
            with suppress(ProcessLookupError):
                self._child.kill()
            self._child.wait()


def start_operator(config: Path, kubeconfig: Path, log: Path, profile: Path | None) -> Process:
    """Start the operator as its image does, or under cProfile."""
    under = ["-m", "cProfile", "-o", str(profile)] if profile else []
    words = [*under, "-m", "moriio_operator.runtime.main", "operator", "--config", str(config)]
    return Process(words, kubeconfig, log)


def await_lead(running: Process, config: Path) -> None:
    """Wait until the operator leads and watches."""
    running.await_log("event=leading")
    port = json.loads(config.read_text())["httpPort"]

    def ready() -> bool:
        running.check()
        with suppress(URLError, OSError), urlopen(f"http://127.0.0.1:{port}/readyz") as answer:
            return int(answer.status) == 200
        return False

    wait_until(ready, timeout_s=60, what="the operator to watch")


def start_recording(config: Path, recorded: Path, kubeconfig: Path, log: Path) -> Process:
    """Start the operator with a record of its calls."""
    words = ["-m", "bench.recording", str(recorded), "operator", "--config", str(config)]
    return Process(words, kubeconfig, log)


def start_bare(recorded: Path, name: str, uid: str, kubeconfig: Path, log: Path) -> Process:
    """Start the bare client on the record of a PDDeployment."""
    return Process(["-m", "bench.bare", str(recorded), name, uid], kubeconfig, log)

"""The real vllm-router as a process on loopback: its packages in the cache, one process a test."""

from __future__ import annotations

import platform
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bed.cache import digest, entry, tree_digest
from bed.command import run, wait_until
from engine_env.places import ROUTER_IMAGE, uv

_LOCK = ROUTER_IMAGE / "requirements.lock"
_START = "from vllm_router.launch_router import main; main()"
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
PATIENCE_S = 30.0


def packages() -> Path:
    """Give the folder of the packages that the router's lock names, installed if absent."""
    key = digest(tree_digest([_LOCK]), sys.version, platform.machine())
    return entry(f"router-{key}", "installing vllm-router", _install)


def _install(folder: Path) -> None:
    options = ("--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:")
    where = ("--python", sys.executable, "--target", str(folder))
    run([uv(), "pip", "install", *options, *where, "--requirements", str(_LOCK)])


def free_ports(count: int) -> list[int]:
    """Give ports of loopback that nothing listens on; another process may still be faster."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()


@dataclass(frozen=True, slots=True)
class Router:
    """A router that runs."""

    api: int
    registration: str
    log_file: Path

    def health(self) -> int:
        """Give the status of /health, 0 while nothing answers."""
        return self._status("/health")

    def alive(self) -> bool:
        """Whether it serves."""
        return self._status("/liveness") == 200

    def log(self) -> str:
        """What it logged, without colours."""
        return _COLOURS.sub("", self.log_file.read_text(errors="replace"))

    def wait_for_log(self, text: str) -> None:
        """Wait until a text is in the log."""
        wait_until(lambda: text in self.log(), timeout_s=PATIENCE_S, what=f"{text!r} in its log")

    def _status(self, path: str) -> int:
        with suppress(OSError):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.api}{path}", timeout=2) as it:
                    return int(it.status)
            except urllib.error.HTTPError as error:
                return error.code
        return 0


@contextmanager
def running(arguments: list[str], *, api: int, registration: str) -> Iterator[Router]:
    """Run a router with these arguments, and end it."""
    command = [
        sys.executable,
        "-IB",
        "-c",
        f"import sys; sys.path.insert(0, sys.argv.pop(1)); {_START}",
    ]
    with TemporaryDirectory(prefix="oracle-router-") as scratch:
        log_file = Path(scratch) / "log"
        with log_file.open("w") as log:
            process = subprocess.Popen(
                [*command, str(packages()), *arguments], stdout=log, stderr=subprocess.STDOUT
            )
        try:
            router = Router(api, registration, log_file)
            wait_until(router.alive, timeout_s=PATIENCE_S, what=f"the router; {router.log()}")
            yield router
        finally:
            process.kill()
            process.wait()

"""The real operator as a process of the host, one namespace each, to be stopped, killed, watched.

Started as in a container, `python -m moriio_operator.runtime.main operator`; or forked from a
server that has imported everything already, where a test needs a new process dozens of times.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import aiohttp

from stage.installation import RELEASE
from stage.shape import HOST_PATH_PREFIXES, OPERATOR_IMAGE

LEASE = "operator"
_POLL_S = 0.02


def settings(namespace: str, *, resync_s: float, **changes: Any) -> dict[str, Any]:
    """Give the settings of an operator of one namespace; `changes` are whole keys."""
    return {
        "namespaces": [namespace],
        "registrarImage": OPERATOR_IMAGE,
        "registrarRole": {"kind": "ClusterRole", "name": f"{RELEASE}-registrar"},
        "leaderElection": {"leaseNamespace": namespace, "leaseName": LEASE},
        "policy": {
            "privilegedNamespaces": [namespace],
            "hostPathPrefixes": list(HOST_PATH_PREFIXES),
        },
        "resyncSeconds": resync_s,
        "httpPort": _free_port(),
        **changes,
    }


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _environment() -> dict[str, str]:
    """Give an environment in which Python finds the modules that the test itself found."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


class OperatorProcess:
    """One process, known by its pid."""

    def __init__(self, pid: int, log: Path, http_port: int) -> None:
        self.pid = pid
        self.log = log
        self.http_port = http_port

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; to a process that has ended it is nothing."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it as a crash does."""
        self.signal(signal.SIGKILL)

    @property
    def lives(self) -> bool:
        """Whether it has not ended; whoever started it reaps it."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True

    async def ended(self, timeout_s: float = 10) -> None:
        """Wait until it has ended.

        Raises:
            TimeoutError: it has not; the log's end is told.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while self.lives:  # noqa: ASYNC110 - the process may be another's child
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            raise TimeoutError(f"pid {self.pid} goes on:\n{self.log_tail()}") from None

    async def ready(self) -> bool:
        """Ask its readiness, as a kubelet does."""
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"http://127.0.0.1:{self.http_port}/readyz") as response,
            ):
                return response.status == 200
        except aiohttp.ClientError:
            return False

    def log_tail(self, lines: int = 15) -> str:
        """Give the end of its log."""
        return "\n".join(self.log.read_text().splitlines()[-lines:])


class Starter(Protocol):
    """A way to start an operator: settings file, kubeconfig, where its log goes."""

    async def start(self, config: Path, kubeconfig: Path, log: Path) -> OperatorProcess:
        """Start one."""


def _http_port(config: Path) -> int:
    return int(json.loads(config.read_text())["httpPort"])


class Anew:
    """Start Python anew for each process, as a container does."""

    def __init__(self) -> None:
        self._children: list[asyncio.subprocess.Process] = []

    @classmethod
    @asynccontextmanager
    async def starter(cls) -> AsyncIterator[Anew]:
        """Give a starter; what it started and still runs is killed at the end."""
        made = cls()
        try:
            yield made
        finally:
            for child in made._children:
                with contextlib.suppress(ProcessLookupError):
                    child.kill()
                await child.wait()

    async def start(self, config: Path, kubeconfig: Path, log: Path) -> OperatorProcess:
        """Start one."""
        with log.open("ab") as out:
            child = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "moriio_operator.runtime.main"),
                *("operator", "--config", str(config)),
                env={**_environment(), "KUBECONFIG": str(kubeconfig)},
                stdout=out,
                stderr=out,
            )
        self._children.append(child)
        return OperatorProcess(child.pid, log, _http_port(config))

    async def exit_code(self, process: OperatorProcess) -> int:
        """Wait until a process has ended, and give how."""
        # Not its `returncode`: the loop learns of that a few steps after the process is gone.
        return await next(c for c in self._children if c.pid == process.pid).wait()


class ForkServer:
    """Fork each process from one that has the operator's modules: 20 ms in place of a second."""

    def __init__(self, server: asyncio.subprocess.Process) -> None:
        self._server = server
        self._one_at_a_time = asyncio.Lock()
        self._started: list[OperatorProcess] = []

    @classmethod
    @asynccontextmanager
    async def starter(cls, log: Path) -> AsyncIterator[ForkServer]:
        """Run the server; what it started and still runs is killed at the end."""
        with log.open("ab") as out:
            server = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "stage.forkserver"),
                env=_environment(),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=out,
            )
        made = cls(server)
        try:
            yield made
        finally:
            for process in made._started:
                process.kill()
            assert server.stdin is not None
            server.stdin.close()
            await server.wait()

    async def start(self, config: Path, kubeconfig: Path, log: Path) -> OperatorProcess:
        """Start one."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        order = {"config": str(config), "kubeconfig": str(kubeconfig), "log": str(log)}
        async with self._one_at_a_time:
            self._server.stdin.write(json.dumps(order).encode() + b"\n")
            answer = await self._server.stdout.readline()
        process = OperatorProcess(int(answer), log, _http_port(config))
        self._started.append(process)
        return process

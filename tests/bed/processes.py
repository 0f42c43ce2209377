"""The processes of a bed: started with a mark in their environment, and found again by it.

The mark names the bed's state folder and the process's part. It is in a process from its first
instruction, so no record has to be kept, and a bed that was killed at any moment, even between a
start and the next line, is found whole. What is killed is held by a pidfd first and looked at once
more through it, so a reused pid is never hit.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, STDOUT, run

from bed.command import Argv, wait_until
from bed.errors import BedError

_MARK = "MORIIO_BED_MEMBER"
_LOG_TAIL_LINES = 15


@dataclass(frozen=True, slots=True)
class Member:
    """A living process of a bed."""

    pid: int
    start_ticks: int
    state: Path
    name: str


def _start_ticks(pid: int) -> int:
    # The second field may hold blanks and brackets; the fields after its last bracket are plain.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[19])


def _mark(environment: bytes) -> tuple[Path, str] | None:
    for variable in environment.split(b"\0"):
        if variable.startswith(f"{_MARK}=".encode()):
            name, _, state = variable.decode().partition("=")[2].partition(":")
            return Path(state), name
    return None


def _member(pid: int) -> Member | None:
    try:
        mark = _mark(Path(f"/proc/{pid}/environ").read_bytes())
        return Member(pid, _start_ticks(pid), *mark) if mark else None
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None  # it ended while being looked at


def members() -> list[Member]:
    """Every living process of any bed on this host."""
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [member for pid in pids if (member := _member(pid)) is not None]


def members_named(state: Path, name: str) -> list[Member]:
    """The living processes of one part of the bed at `state`."""
    return [member for member in members() if member.state == state and member.name == name]


def spawn(state: Path, name: str, argv: Argv) -> None:
    """Start a process of the bed; it writes its output to the log of its name."""
    log = log_path(state, name)
    log.parent.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, _MARK: f"{name}:{state}"}
    # setsid forks and ends, so the process is nobody's child here: it needs no one to reap it, and
    # neither the terminal's Ctrl-C nor the end of this program reaches it.
    words = ["setsid", "--fork", *map(str, argv)]
    with log.open("ab") as output:
        run(words, stdin=DEVNULL, stdout=output, stderr=STDOUT, env=env, check=True)


def log_path(state: Path, name: str) -> Path:
    """Where a part of the bed writes its output."""
    return state / "log" / f"{name}.log"


def log_tail(state: Path, name: str) -> str:
    """Return the last lines that a part of the bed wrote."""
    with suppress(FileNotFoundError):
        lines = log_path(state, name).read_text(errors="replace").splitlines()
        return "\n".join(lines[-_LOG_TAIL_LINES:])
    return "(no output)"


def await_part(state: Path, name: str, ready: Callable[[], bool], timeout_s: float) -> None:
    """Wait until a part of the bed is ready; if it ends or takes too long, show what it said."""

    def settled() -> bool:
        return ready() or not members_named(state, name)

    try:
        wait_until(settled, timeout_s=timeout_s, what=f"{name} to become ready", every_s=0.1)
    except BedError as late:
        raise BedError(f"{late}; its log ends:\n{log_tail(state, name)}") from late
    if not members_named(state, name):
        raise BedError(f"{name} exited before it was ready; its log ends:\n{log_tail(state, name)}")


def _inner_pids(pid: int) -> list[str]:
    """Return a process's pids in the PID namespaces below the one that this process sees."""
    with suppress(FileNotFoundError, ProcessLookupError):
        status = Path(f"/proc/{pid}/status").read_text().splitlines()
        return next(line for line in status if line.startswith("NSpid:")).split()[2:]
    return []


def namespace_init(state: Path, name: str) -> int | None:
    """Pid, as the host sees it, of process 1 in the PID namespace that a part of the bed holds."""
    for member in members_named(state, name):
        if _inner_pids(member.pid)[-1:] == ["1"]:
            return member.pid
    return None


def kill(victims: Iterable[Member]) -> None:
    """Kill processes and wait until each is gone.

    Those in namespaces go first, while their parents outside live on and reap them: a namespace
    lasts until that is done, and the host's process 1, to whom orphans fall, may be one that never
    reaps.
    """
    all_victims = list(victims)
    inside = [member for member in all_victims if _inner_pids(member.pid)]
    _kill_at_once(inside)
    _kill_at_once(member for member in all_victims if member not in inside)


def _kill_at_once(victims: Iterable[Member], *, timeout_s: float = 30) -> None:
    held = [(fd, member) for member in victims if (fd := _hold(member)) is not None]
    try:
        for fd, _ in held:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(fd, signal.SIGKILL)
        deadline = time.monotonic() + timeout_s
        for fd, member in held:
            # A pidfd turns readable when its process has ended.
            left_ms = max(0.0, deadline - time.monotonic()) * 1000
            poller = select.poll()
            poller.register(fd, select.POLLIN)
            if not poller.poll(left_ms):
                raise BedError(f"{member.name} (pid {member.pid}) does not end after SIGKILL")
    finally:
        for fd, _ in held:
            os.close(fd)


def _hold(member: Member) -> int | None:
    try:
        fd = os.pidfd_open(member.pid)
    except ProcessLookupError:
        return None
    if _member(member.pid) == member:
        return fd
    os.close(fd)  # the pid is another process's by now
    return None

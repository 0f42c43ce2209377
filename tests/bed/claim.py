"""Who has the bed: a lock on its state folder, and a record of who brought it up.

One bed fits on a host, so whoever wants it claims it first. The lock is the kernel's and ends with
its holder, however that ends; the record tells what the last holder left: a bed that shall stay
(the `up` command ended well) or wreckage of a process that was killed, which the next claim may
clear away.
"""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import IO

from bed.errors import BedError
from bed.processes import Member, members

_REMEDY = "run `make bed-down` first"


def state_folder() -> Path:
    """The folder of everything that a living bed keeps: MORIIO_BED_STATE, or one in /var/lib."""
    return Path(os.environ.get("MORIIO_BED_STATE", "/var/lib/moriio-bed")).resolve()


@dataclass(frozen=True, slots=True)
class Record:
    """What the last holder of the claim said about the bed.

    `stays` is set once a bed is up that shall outlive the process that brought it up.
    """

    pid: int
    command: str
    stays: bool = False


class Standing(Enum):
    """What a claim may find."""

    FREE = "no bed is up"
    WRECKED = "a bed was left behind by a process that is gone"
    STAYS = "a bed is up and is meant to stay"


def standing(record: Record | None, living: list[Member]) -> Standing:
    """Judge what stands behind a lock that nobody holds."""
    if record is None and not living:
        return Standing.FREE
    # A bed that shall stay and has no process left was ended by a reboot.
    if record is not None and record.stays and living:
        return Standing.STAYS
    return Standing.WRECKED


class Claim:
    """The right to the bed at a state folder, held until released or until this process ends."""

    def __init__(self, state: Path) -> None:
        self.state = state
        state.mkdir(parents=True, exist_ok=True)
        self._lock: IO[str] = (state / "lock").open("a")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise BedError(_held_by(read_record(state))) from None
        try:
            _refuse_other_beds(state)
        except BedError:
            self.release()
            raise

    def refuse_standing_bed(self) -> None:
        """Refuse with the remedy if a bed is up that shall stay."""
        if self.standing() is Standing.STAYS:
            raise BedError(refusal(self.state))

    def record(self, *, stays: bool) -> None:
        """Say who has the bed, and whether it shall outlive this process."""
        write_record(self.state, Record(os.getpid(), _own_command(), stays))

    def standing(self) -> Standing:
        """What the bed is found as."""
        own = [member for member in members() if member.state == self.state]
        return standing(read_record(self.state), own)

    def release(self) -> None:
        """Give the claim back; releasing twice does no harm."""
        self._lock.close()


def read_record(state: Path) -> Record | None:
    """Return the record of the last holder, if there is one that can be read."""
    try:
        return Record(**json.loads((state / "bed.json").read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def write_record(state: Path, record: Record) -> None:
    """Replace the record in one step, so that a killed writer leaves the old or the new one."""
    partial = state / "bed.json.partial"
    partial.write_text(json.dumps(asdict(record)))
    partial.rename(state / "bed.json")


def refusal(state: Path) -> str:
    """Return the text for whoever wants a bed while one is up that shall stay."""
    record = read_record(state)
    by = f" (brought up by `{record.command}`)" if record else ""
    return f"a bed is already up at {state}{by}: {_REMEDY}"


def _held_by(record: Record | None) -> str:
    if record is None:
        return f"another process is bringing a bed up or down right now: wait for it, or {_REMEDY}"
    return (
        f"the bed is held by process {record.pid} (`{record.command}`), which is running, and only"
        f" one fits on a host: wait for that process or end it, which removes its bed; if it does"
        f" not, {_REMEDY}"
    )


def _refuse_other_beds(state: Path) -> None:
    others = {str(member.state) for member in members() if member.state != state}
    if others:
        other = min(others)
        raise BedError(
            f"another bed is up, with the state folder {other}, and only one fits on a host:"
            f" run `MORIIO_BED_STATE={other} make bed-down` first"
        )


def _own_command() -> str:
    words = Path("/proc/self/cmdline").read_bytes().split(b"\0")
    return " ".join(b" ".join(words).decode(errors="replace").split())[:200]

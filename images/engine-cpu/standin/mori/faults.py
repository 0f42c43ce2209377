"""Faults that a test switches on and off by a file while engines run.

MORI_STANDIN_FAULTS names the file, else /tmp/mori-faults.json is looked for; no file, no fault:

    {"fault": "corrupt", "delay_ms": 0, "no_device": false}

    fault      none | fail (transfers end in an error) | drop (they never complete)
               | corrupt (the payload arrives as zeros, and nobody is told)
    delay_ms   each transfer takes that much longer
    no_device  creating the RDMA backend ends the process, as on a host without a usable NIC

They act on the side that starts a transfer: decode in READ, prefill in WRITE. The file is read
again whenever it is another one; a writer replaces it by rename, so that none sees half of it.
"""

import dataclasses
import enum
import json
import os
from pathlib import Path

VARIABLE = "MORI_STANDIN_FAULTS"
DEFAULT_PATH = "/tmp/mori-faults.json"


class Fault(enum.Enum):
    """What happens to a transfer."""

    NONE = "none"
    FAIL = "fail"
    DROP = "drop"
    CORRUPT = "corrupt"


@dataclasses.dataclass(frozen=True, slots=True)
class Faults:
    """What is broken now."""

    fault: Fault = Fault.NONE
    delay_ms: int = 0
    no_device: bool = False


_Stamp = tuple[int, int, int]


class FaultSwitch:
    """Reads the file, again only when it has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: _Stamp | None = None
        self._faults = Faults()

    def now(self) -> Faults:
        """What is broken now; a file that cannot be understood raises ValueError."""
        stamp = self._stamp_now()
        if stamp is None:
            self._stamp, self._faults = None, Faults()
        elif stamp != self._stamp:
            # The stamp is kept only with what it stands for: a bad file fails every time.
            self._faults = _parse(self._path)
            self._stamp = stamp
        return self._faults

    def _stamp_now(self) -> _Stamp | None:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size


def _parse(path: Path) -> Faults:
    try:
        return _faults(json.loads(path.read_text()))
    except (ValueError, TypeError) as error:
        raise ValueError(f"fault file {path}: {error}") from error


def _faults(given: object) -> Faults:
    if not isinstance(given, dict):
        raise TypeError(f"an object is needed, this is a {type(given).__name__}")
    known = {field.name for field in dataclasses.fields(Faults)}
    if unknown := sorted(set(given) - known):
        raise ValueError(f"unknown keys {unknown}, known are {sorted(known)}")
    return Faults(
        fault=Fault(given.get("fault") or "none"),
        delay_ms=int(given.get("delay_ms", 0)),
        no_device=bool(given.get("no_device", False)),
    )


def switch() -> FaultSwitch:
    """Return the switch of this process, by its environment."""
    return FaultSwitch(Path(os.environ.get(VARIABLE, DEFAULT_PATH)))

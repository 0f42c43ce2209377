"""What is done once for a bed, whichever of several processes comes first.

Test processes share one bed: the first that needs a thing makes it, the others wait and get what it
gave. Records are files in the bed's own folder, so they end with the bed.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Records:
    """The records in one folder."""

    folder: Path

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """Give what `make` returned, as JSON knows it; it is called unless another process did.

        What failed is not recorded: whoever comes next tries again.
        """
        with self._locked(name) as record:
            if not record.exists():
                self._write(record, make())
            return json.loads(record.read_text())

    def next_number(self, name: str) -> int:
        """Count from zero, over all processes."""
        with self._locked(name) as record:
            number: int = json.loads(record.read_text()) if record.exists() else 0
            self._write(record, number + 1)
            return number

    def add(self, name: str, value: Any) -> None:
        """Add to a list that all processes see."""
        with self._locked(name) as record:
            self._write(record, [*self._list(record), value])

    def added(self, name: str) -> list[Any]:
        """Give the list; empty if nobody added anything."""
        with self._locked(name) as record:
            return self._list(record)

    @contextmanager
    def _locked(self, name: str) -> Iterator[Path]:
        self.folder.mkdir(exist_ok=True)
        with (self.folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield self.folder / f"{name}.json"

    @staticmethod
    def _list(record: Path) -> list[Any]:
        return list(json.loads(record.read_text())) if record.exists() else []

    @staticmethod
    def _write(record: Path, value: Any) -> None:
        # In one step, so that a killed writer leaves the old or the new one.
        partial = record.with_suffix(".partial")
        partial.write_text(json.dumps(value))
        partial.rename(record)

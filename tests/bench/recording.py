"""`python -m bench.recording FILE operator ...`: the operator, with each of its calls written down.

Recorded below everything else that it does, so what is played back is what went over the wire. A
line is written when a call ends; its start tells which calls were under way at once.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from moriio_operator.kube.client import Kube
from moriio_operator.kube.kinds import Kind
from moriio_operator.runtime.main import main

_send = Kube._send


@dataclass(frozen=True, slots=True)
class Recorded:
    """One call, as `Kube` sent it."""

    verb: str
    kind: str
    method: str
    path: str
    query: dict[str, str]
    body: Any
    content_type: str
    began: float
    ended: float


def read(file: Path) -> list[Recorded]:
    """Read a record, in the order in which the calls began."""
    lines = file.read_text().splitlines()
    return sorted((Recorded(**json.loads(line)) for line in lines), key=lambda call: call.began)


def record(file: Path) -> None:
    """Write down each call of every client from now on."""
    out = file.open("a")

    async def send(
        self: Kube,
        verb: str,
        kind: Kind,
        method: str,
        path: str,
        query: dict[str, str],
        body: Any,
        content_type: str,
        timeout_s: float,
    ) -> Any:
        began = time.monotonic()
        try:
            return await _send(self, verb, kind, method, path, query, body, content_type, timeout_s)
        finally:
            ended = time.monotonic()
            call = Recorded(verb, kind.kind, method, path, query, body, content_type, began, ended)
            out.write(json.dumps(asdict(call)) + "\n")
            out.flush()

    Kube._send = send  # type: ignore[method-assign]


if __name__ == "__main__":
    record(Path(sys.argv[1]))
    sys.exit(main(sys.argv[2:]))

"""Running other programs to their end, with an error that shows what they said."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bed.errors import BedError

# A command: the program and its arguments.
Argv = Sequence[str | Path]

_TAIL_CHARS = 3000


def run(
    argv: Argv,
    *,
    stdin: str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    check: bool = True,
    timeout_s: float | None = None,
) -> str:
    """Run a program and return its stdout; a failure carries the end of its stderr."""
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words,
            input=stdin,
            env=env,
            cwd=cwd,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired as late:
        raise BedError(f"`{shlex.join(words)[:300]}` took over {timeout_s} s") from late
    except FileNotFoundError as absent:
        raise BedError(f"{absent.filename} is missing: run `make tools`") from absent
    if check and done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip())[-_TAIL_CHARS:]
        raise BedError(f"`{shlex.join(words)[:300]}` exited with code {done.returncode}: {said}")
    return done.stdout


def succeeds(argv: Argv) -> bool:
    """Whether a program is there and ends with code 0; what it says is dropped."""
    words = [str(word) for word in argv]
    try:
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def wait_until(
    condition: Callable[[], bool], *, timeout_s: float, what: str, every_s: float = 0.05
) -> None:
    """Wait for a condition; `what` completes the sentence 'gave up waiting for ...'."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise BedError(f"gave up after {timeout_s:g} s waiting for {what}")
        time.sleep(every_s)

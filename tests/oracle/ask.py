"""Asks one release's own code: a process a call, apart from this one and from what is installed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PROGRAM = Path(__file__).with_name("inside") / "answer.py"
_TAIL_CHARS = 1500


class UnansweredError(Exception):
    """The release's code could not even be loaded, or gave something that is no plain data."""


@dataclass(frozen=True, slots=True)
class Question:
    """A function of `inside/answer.py` and its arguments."""

    function: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the release's code gave, or the exception that it raised."""

    value: Any = None
    raised: str | None = None

    def __str__(self) -> str:
        return self.raised or json.dumps(self.value, sort_keys=True)


def ask(tree: Path, questions: Sequence[Question]) -> list[Answer]:
    """Put questions to the code in a source tree."""
    asked = json.dumps([[question.function, question.arguments] for question in questions])
    command = [sys.executable, "-IB", "-W", "ignore", str(_PROGRAM), str(tree)]
    done = subprocess.run(command, input=asked, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise UnansweredError(done.stderr[-_TAIL_CHARS:])
    return [Answer(**answer) for answer in json.loads(done.stdout)]

"""Crash signatures: a fragment in facts/signatures.py is text of the releases that it names.

And of no other: a row that claims too little would not be looked for where it helps. What is said
by other software than vLLM (MORI, libibverbs, PyTorch, Python) is not looked up.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType

from moriio_operator.facts.signatures import SIGNATURES, Signature

from oracle.release import Release, Row
from oracle.sources import CONNECTOR

# The file that a row's source names, such as moriio_engine.py or vllm/config/vllm.py.
_FILE = re.compile(r"[\w/]+\.py")
_OF_CONNECTOR = "moriio_"


def texts(file: Path) -> str:
    """Give every text in a Python file, a line each, as it is said: parts of one are joined.

    Compiled code has them so, without comments, and is quicker to make than a syntax tree.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about others' code
        code = compile(file.read_text(), file.name, "exec", dont_inherit=True)
    return "\n".join(_constants(code))


def _constants(code: CodeType) -> Iterator[str]:
    for constant in code.co_consts:
        for value in constant if isinstance(constant, tuple) else (constant,):
            if isinstance(value, CodeType):
                yield from _constants(value)
            elif isinstance(value, str):
                yield value


def differences(release: Release) -> Iterator[Row]:
    """Look up every fragment in the texts of a release's sources."""
    said = _Said(release.tree)
    for signature in SIGNATURES:
        named = _FILE.search(signature.source)
        if named is None:
            continue
        found = said.anywhere(signature.fragment, named[0])
        claimed = signature.first <= release.rules <= signature.last
        if found != claimed:
            subject = f"{signature.fragment!r} ({signature.source})"
            theirs = "it is said" if found else "nothing of it"
            yield Row(release.name, subject, theirs, _claim(signature))


def _claim(signature: Signature) -> str:
    return f"it is said from {signature.first} to {signature.last}"


class _Said:
    """What a release can say, read as far as it is asked for."""

    def __init__(self, tree: Path) -> None:
        self._tree = tree
        self._texts: dict[Path, str] = {}

    def anywhere(self, fragment: str, file_name: str) -> bool:
        """Return whether a fragment is said: by the file named, else by one that it moved to."""
        if file_name.startswith(_OF_CONNECTOR):
            return self._by(fragment, sorted((self._tree / CONNECTOR).glob("*.py")))
        whole = (self._tree / "vllm").rglob("*.py")
        at_hand = [file for file in whole if file.as_posix().endswith(f"/{file_name}")]
        return self._by(fragment, at_hand) or self._by(fragment, self._naming(fragment))

    def _by(self, fragment: str, files: Iterable[Path]) -> bool:
        return any(fragment in self._read(file) for file in files)

    def _read(self, file: Path) -> str:
        if file not in self._texts:
            self._texts[file] = texts(file)
        return self._texts[file]

    def _naming(self, fragment: str) -> Iterator[Path]:
        """Find files with a fragment somewhere in their source, in one piece."""
        for file in (self._tree / "vllm").rglob("*.py"):
            if fragment in file.read_text():
                yield file

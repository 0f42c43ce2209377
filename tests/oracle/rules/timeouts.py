"""Times after which something is given up: facts/timeouts.py against a release's defaults."""

from __future__ import annotations

import re
from collections.abc import Iterator

from moriio_operator.facts.timeouts import TIMEOUTS, holding

from oracle.ask import Question, ask
from oracle.release import Release, Row
from oracle.rules.keys import least_configuration

_OWNER = "vLLM"


def differences(release: Release) -> Iterator[Row]:
    """Compare whether a release has each time, and its default in seconds."""
    names = [timeout.name for timeout in TIMEOUTS]
    questions = [
        Question("variables", {"names": names, "environment": {}}),
        Question("constants", {"names": names}),
        least_configuration(),
    ]
    variables, constants, configured = ask(release.tree, questions)
    theirs = {**configured.value["fields"], **constants.value, **variables.value}
    held = holding(release.rules)
    for timeout in TIMEOUTS:
        if timeout.owner != _OWNER:
            continue
        found = theirs.get(timeout.name)
        if timeout.name.startswith("--"):
            found = _flag_default(release, timeout.name)
        ours = timeout.default_s if timeout in held else None
        if found != ours:
            yield Row(release.name, f"time {timeout.name}", str(found), str(ours))


def _flag_default(release: Release, flag: str) -> int | None:
    """Find the default of a flag that is made from a field of vLLM's configuration."""
    field = flag.removeprefix("--").replace("-", "_")
    pattern = re.compile(rf"^    {field}: [^=\n]*= (?:Field\(default=)?(\d+)", re.MULTILINE)
    for file in sorted((release.tree / "vllm" / "config").glob("*.py")):
        found = pattern.search(file.read_text())
        if found:
            return int(found[1])
    return None

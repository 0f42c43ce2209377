"""Tables in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Give a table with a row of headings."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(map(cell, line))} |\n" for line in lines)


def cell(text: str) -> str:
    """Give a text as it may stand between two bars."""
    # Outside of code, `<role>` would be taken for HTML and not be shown.
    text = re.sub(r"(`[^`]*`)|<", lambda found: found[1] or r"\<", text)
    return text.replace("|", r"\|").replace("\n", " ")

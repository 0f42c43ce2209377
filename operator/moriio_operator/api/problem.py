"""A problem with an address: which field, what is wrong, what to do.

The same text serves condition, event and command line, so it is made in one place.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that keeps a PDDeployment from being acted on.

    `reason` is the condition's CamelCase reason; `path` the field as a user would write it.
    """

    reason: str
    path: str
    text: str

    def __str__(self) -> str:
        """Give the sentence that a user reads."""
        return f"{self.path}: {self.text}" if self.path else self.text

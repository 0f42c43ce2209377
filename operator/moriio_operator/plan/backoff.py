"""When a role whose engines end may start the next: at once, then slower and slower.

The state is in the status, so an operator's restart does not start a crash loop afresh.
"""

from __future__ import annotations

from datetime import datetime, timedelta

FIRST_S = 10
LONGEST_S = 300
# Engines that end further apart than this are not one crash loop.
FORGET_S = 600


def count(failures: int, last: datetime | None, now: datetime) -> int:
    """Count one more failure, or begin anew when the last one was long ago."""
    # Also an end in the future is not of this loop: a clock went back, on another node.
    if last is None or abs(now - last) > timedelta(seconds=FORGET_S):
        return 1
    return failures + 1


def delay_s(failures: int) -> int:
    """Seconds to wait after so many failures: 0, 10, 20, 40 ... 300."""
    if failures <= 1:
        return 0
    return int(min(FIRST_S * 2 ** min(failures - 2, 10), LONGEST_S))


def remaining_s(failures: int, last: datetime | None, now: datetime) -> float:
    """Seconds until the next engine may start; 0 when it may now."""
    if last is None:
        return 0.0
    delay = float(delay_s(failures))
    return max(delay - abs(now - last).total_seconds(), 0.0)

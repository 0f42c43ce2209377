"""What was seen, as the tables of docs/performance.md, and the aims that were missed."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from statistics import fmean

from bench import figures
from bench.figures import Latency
from bench.rounds import IDLE_S, Creation, Result

# Of the issue that asked for this: how close to a bare client, and how sparing with the API.
MOST_RATIO = 1.3
MOST_READS = 12
MOST_STATUS_WRITES = 3


def tables(result: Result) -> str:
    """Write both tables, and what they were measured on."""
    shape = result.shape
    return "\n\n".join(
        [
            f"{shape.deployments} PDDeployments at {shape.per_second:g} per second, each with"
            f" {result.objects} objects (4 of them engines), on {shape.nodes} simulated nodes; all"
            f" on one machine with {os.cpu_count()} processors."
            " Mean of the rounds (minimum to maximum).",
            figures.table(_creates(result)),
            figures.table(_rest(result)),
        ]
    )


def missed(result: Result) -> list[str]:
    """Name the aims that were missed."""
    probe = result.probe_calls
    checks = {
        f"p50 within {MOST_RATIO} of the bare client's": _ratio(result, _p50) <= MOST_RATIO,
        f"p99 within {MOST_RATIO} of the bare client's": _ratio(result, _p99) <= MOST_RATIO,
        f"at most {MOST_READS} reads per create": probe["reads"] <= MOST_READS,
        f"at most {MOST_STATUS_WRITES} status writes per create": probe["status writes"]
        <= MOST_STATUS_WRITES,
        "no write while idle": result.life.idle.writes == 0,
    }
    return [aim for aim, met in checks.items() if not met]


_Figure = Callable[[Creation], float]


def _p50(seen: Creation) -> float:
    return seen.latency.p50_s


def _p99(seen: Creation) -> float:
    return seen.latency.p99_s


def _ratio(result: Result, figure: _Figure) -> float:
    bare = fmean(map(figure, result.bare))
    return fmean(map(figure, result.operator)) / bare if bare else 0.0


def _creates(result: Result) -> list[list[str]]:
    def row(title: str, figure: _Figure, form: Callable[[float], str]) -> list[str]:
        cells = [
            _cell([form(figure(r)) for r in rounds], form(fmean(map(figure, rounds))))
            for rounds in (result.bare, result.operator)
        ]
        return [title, *cells, f"{_ratio(result, figure):.2f}"]

    each_s = result.shape.deployments / 1000
    counts = [
        row(f"{category} per PDDeployment", lambda r, c=category: r.calls[c], "{:.1f}".format)  # type: ignore[misc]
        for category in figures.CATEGORIES
    ]
    return [
        ["create", "bare client", "operator", "operator to bare"],
        row("all objects exist, p50", _p50, "{:.2f} s".format),
        row("all objects exist, p99", _p99, "{:.2f} s".format),
        *counts,
        row("CPU of the client per PDDeployment", lambda r: r.cpu_s / each_s, "{:.0f} ms".format),
        row("resident memory of the client", lambda r: r.memory_mib, "{:.0f} MiB".format),
    ]


def _cell(texts: Sequence[str], mean: str) -> str:
    least, most = min(texts, key=_number), max(texts, key=_number)
    return mean if least == most else f"{mean} ({least.split()[0]} to {most.split()[0]})"


def _number(text: str) -> float:
    return float(text.split(maxsplit=1)[0])


def _rest(result: Result) -> list[list[str]]:
    idle = result.life.idle
    alone = ", ".join(f"{count:.0f} {category}" for category, count in result.probe_calls.items())
    return [
        ["operator", "measured"],
        ["calls of a single create on a quiet cluster, until stable", alone],
        ["update of a router's setting, until its Deployment has it", _both(result.life.update)],
        ["delete, until the last pod is gone from the API", _both(result.life.delete)],
        [f"writes in {IDLE_S} s while idle, with a resync every 10 s", str(idle.writes)],
        [
            f"reads in the same time, for all {result.shape.deployments} PDDeployments",
            str(idle.reads),
        ],
        ["CPU in the same time", f"{idle.cpu_s:.1f} s"],
    ]


def _both(latency: Latency) -> str:
    return f"p50 {latency.p50_s:.2f} s, p99 {latency.p99_s:.2f} s"

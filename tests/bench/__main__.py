"""`python -m bench`: run the benchmark, print its table, and put it into docs/performance.md."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from bed.cache import REPO, progress
from bed.cluster import Bed
from bed.config import BedConfig

from bench import figures, report
from bench.rounds import Bench, Shape

PAGE = REPO / "docs/performance.md"


def main(arguments: list[str]) -> int:
    """Run it; the exit code tells whether all aims were met."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--deployments", type=int, default=100, metavar="N")
    parser.add_argument("--per-second", type=float, default=5, metavar="N")
    parser.add_argument("--turns", type=int, default=2, metavar="N", help="operator's rounds (2)")
    parser.add_argument("--profile", type=Path, metavar="FILE", help="profile the operator there")
    parser.add_argument("--no-page", action="store_true", help="leave docs/performance.md alone")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep records and logs there")
    options = parser.parse_args(arguments)
    shape = Shape(options.deployments, options.per_second, options.turns, profile=options.profile)
    with tempfile.TemporaryDirectory(prefix="moriio-bench-") as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        with Bed.up(BedConfig(nodes=1, devices=None, policy_engine="none")) as bed:
            result = Bench(bed, shape, folder).run()
    text = report.tables(result)
    print(text)
    if not options.no_page:
        figures.put(PAGE, text)
    missed = report.missed(result)
    for aim in missed:
        progress(f"missed: {aim}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

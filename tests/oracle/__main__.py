"""`python -m oracle latest|compare|pin`: what differs between a release of vLLM and our contract.

latest            compare the newest release on the package index, unless the contract knows it
compare VERSION   compare this one
pin VERSION       print the line of this one for sources.lock

Exit code 0: nothing differs; 1: each difference is a line of the output; 2: no answer was possible.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from bed.cache import cache_root, progress
from bed.errors import BedError
from moriio_operator.facts import versions

from oracle.compare import rows
from oracle.release import Release, pinned
from oracle.sources import fetch, locked, newest, sha256_of


def main(arguments: list[str]) -> int:
    """Run the command that the arguments name; give the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m oracle",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=["latest", "compare", "pin"])
    parser.add_argument("version", nargs="?", help="such as 0.33.0")
    given = parser.parse_args(arguments)
    if (given.command == "latest") != (given.version is None):
        parser.error("`latest` takes no version, `compare` and `pin` take one")
    try:
        match given.command:
            case "latest":
                return _latest()
            case "compare":
                return _compare(given.version)
            case _:
                print(given.version, sha256_of(given.version))
                return 0
    except (BedError, ValueError) as error:
        print(f"oracle: {error}", file=sys.stderr)
        return 2


def _latest() -> int:
    name = newest()
    found = versions.parse(name)
    if found is not None and found <= versions.NEWEST:
        print(f"vLLM {name} is the newest release, and the contract knows it")
        return 0
    return _compare(name)


def _compare(name: str) -> int:
    if name in locked():
        return report(pinned(name))
    progress(f"fetching the sources of vLLM {name}, which is not in the lock")
    with TemporaryDirectory(prefix="oracle-", dir=cache_root()) as scratch:
        tree = Path(scratch) / "tree"
        fetch(name, tree)
        return report(Release.at(name, tree))


def report(release: Release) -> int:
    """Print every difference; give the exit code."""
    differences = list(rows(release))
    for row in differences:
        print(row)
    progress(f"vLLM {release.name}: {len(differences)} differences")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""`python -m engine_env build|model|lock`: build the environment, the model, or refresh the locks.

Prints the folder that was built, or each lock file that was written; progress goes to stderr.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bed.errors import BedError
from bed.packages import install_packages

from engine_env.environment import environment
from engine_env.lock import write_locks
from engine_env.model import models


def main() -> None:
    """Run the command named on the command line."""
    parser = argparse.ArgumentParser(prog="python -m engine_env", description=__doc__)
    parser.add_argument("command", choices=["build", "model", "lock"])
    command = parser.parse_args().command
    try:
        install_packages()
        for made in _make(command):
            print(made)
    except BedError as error:
        sys.exit(f"engine_env: {error}")


def _make(command: str) -> Sequence[Path]:
    match command:
        case "build":
            return [environment()]
        case "model":
            return [models()]
        case _:
            return write_locks()


if __name__ == "__main__":
    main()

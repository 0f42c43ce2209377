"""`python -m demo up|down`: what `make demo` and `make demo-down` run."""

from __future__ import annotations

import sys
import time

from bed.__main__ import main as bed_command
from bed.cluster import Bed
from bed.errors import BedError
from stage import installation
from stage.shape import serving_bed

from demo import show

NEXT_STEPS = """
Look around:
  make kubectl ARGS='-n demo describe pdd demo'
  make kubectl ARGS='-n demo get pods -o wide'
  make kubectl ARGS='-n demo logs -l moriio.dev/role=decode --tail=20'
  make kubectl ARGS='-n moriio-system logs deploy/moriio-operator'
Remove it:
  make demo-down
"""


def up() -> int:
    """Run the demo; give 0 only if the proof holds."""
    began = time.monotonic()

    def step(text: str) -> None:
        print(f"\n== {text} ({time.monotonic() - began:.0f} s)", flush=True)

    step("Building the images and the model, unless they are cached")
    config = serving_bed()
    step("Bringing up a Kubernetes cluster of two nodes")
    bed = Bed.up(config, lifetime="until-down")
    try:
        step(f"Installing the chart into namespace {installation.NAMESPACE}")
        installation.install(bed, [show.NAMESPACE])
        return 0 if show.show(bed, step) else 1
    finally:
        bed.leave()
        print(NEXT_STEPS)


def main(arguments: list[str]) -> int:
    """Run one command; give the exit code."""
    if arguments == ["down"]:
        return bed_command(["down"])
    if arguments != ["up"]:
        print("usage: python -m demo up|down", file=sys.stderr)
        return 2
    try:
        return up()
    except (AssertionError, BedError, LookupError, OSError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

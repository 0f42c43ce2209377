"""How long the port allocator takes: 1,000 engines of 200 PDDeployments that share 100 nodes.

`python -m bench.allocator`; it needs no cluster. Every pass sees the blocks of all others, as on
the host network, and every PDDeployment begins at the same end of the range: the worst there is.
"""

from __future__ import annotations

import statistics
import time

from moriio_operator.api.ports import PortBlock, PortRange
from moriio_operator.plan.ports import HeldPorts, allocate
from moriio_operator.stack.vllm_moriio.ports import layout

DEPLOYMENTS, ENGINES_EACH, ROUNDS = 200, 5, 5
RANGE = PortRange()
SIZE = len(layout(2))


def allocate_all() -> list[PortBlock]:
    """Give blocks to all engines, one PDDeployment after the other."""
    given: list[PortBlock] = []
    for _ in range(DEPLOYMENTS):
        held, cursor = HeldPorts(RANGE, given), 0
        for _ in range(ENGINES_EACH):
            made = allocate(cursor, SIZE, RANGE, held)
            held.add(made.ports)
            given.append(made.ports)
            cursor = made.cursor
    return given


def main() -> None:
    """Measure, and print the median."""
    seconds = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        given = allocate_all()
        seconds.append(time.perf_counter() - began)
        numbers = {port for block in given for port in range(block.base, block.base + block.size)}
        assert len(numbers) == DEPLOYMENTS * ENGINES_EACH * SIZE
    print(
        f"{len(given)} engines of {SIZE} ports in {RANGE}: "
        f"{statistics.median(seconds) * 1000:.0f} ms (median of {ROUNDS})"
    )


if __name__ == "__main__":
    main()

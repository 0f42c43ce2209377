"""Engines of other PDDeployments on the host network: whose ports count, and who gives way.

On the host network an engine shares its address with whatever else runs on its node, and which node
that will be is the scheduler's to say. So the ports of every living engine count as held, wherever
it runs. Within one process a lock keeps two passes from giving out the same block; two processes
can, in the moment of a handover. The scheduler then keeps the two from one node, and the one that
no node has yet gives way here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from moriio_operator.api.status import EngineState
from moriio_operator.observe.engine import Engine, with_duplicate_ports

# Longer than two processes can both believe to lead, with their requests under way.
_HANDOVER = timedelta(seconds=120)


def without_duplicates(engines: Sequence[Engine], neighbours: Sequence[Engine]) -> list[Engine]:
    """Give a deployment's engines, those that give way to another as ended."""
    return [_judged(engine, [*engines, *neighbours]) for engine in engines]


def unplaced(engines: Iterable[Engine], now: datetime) -> bool:
    """Return whether an engine on the host network is young and waits for a node.

    One that has waited for longer was given its ports by a process that has long since been seen to
    by all others, so none of them has given out the same.
    """
    return any(_waits(engine) and _is_young(engine, now) for engine in engines)


def _judged(engine: Engine, others: Sequence[Engine]) -> Engine:
    if not _waits(engine):
        return engine
    for other in others:
        if _precedes(other, engine):
            return with_duplicate_ports(engine, other)
    return engine


def _waits(engine: Engine) -> bool:
    return engine.host_network and engine.node is None and engine.state is EngineState.PENDING


def _is_young(engine: Engine, now: datetime) -> bool:
    return engine.created is None or abs(now - engine.created) <= _HANDOVER


def _precedes(other: Engine, engine: Engine) -> bool:
    """Return whether another engine holds the ports of one that no node has yet."""
    if other.uid == engine.uid or not other.host_network:
        return False
    if not other.ports.overlaps(engine.ports):
        return False
    return other.node is not None or _age(other) < _age(engine)


def _age(engine: Engine) -> tuple[datetime, str]:
    # Creation times are in whole seconds; between equals the uid decides, the same way for both.
    return (engine.created or datetime.min.replace(tzinfo=UTC), engine.uid)

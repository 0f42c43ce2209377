"""Blocks of engines that are gone, kept back while an engine lives that may know them.

A peer that fetched an engine's handshake keeps it for good. So a block must not come back before
all engines are gone that were there before its engine went, however small the range is and whatever
range was used meanwhile: the cursor's cycle alone does not see to that. An engine that was seen to
end without having served was shown to no peer, and leaves nothing behind.

Its serial says whether an engine was there then: the cursor gave out all smaller ones before.
"""

from __future__ import annotations

from collections.abc import Sequence

from moriio_operator.api.status import EngineState, RetiredPorts, Status
from moriio_operator.observe.engine import Engine

# Those that went last are kept. Where more are needed the cursor has gone a long way meanwhile.
MOST = 256
_SHOWN = (EngineState.READY, EngineState.UNREADY)
# One that vanished in such a state may have served meanwhile.
_UNKNOWN = (EngineState.PENDING, EngineState.STARTING)


def served(engine: Engine, status: Status) -> bool:
    """Return whether an engine ever served, so that peers may know its ports."""
    if engine.state in _SHOWN:
        return True
    return any(known.pod == engine.pod and known.served for known in status.engines)


def retired(status: Status, engines: Sequence[Engine], cursor: int) -> tuple[RetiredPorts, ...]:
    """Give the blocks that are kept back; `cursor` is where it stands now."""
    there = {engine.pod for engine in engines}
    gone = [
        RetiredPorts(base=known.port_base, ports=known.ports, until=cursor)
        for known in status.engines
        if known.pod not in there and (known.served or known.state in _UNKNOWN)
    ]
    oldest = min((engine.serial for engine in engines), default=cursor)
    kept = [block for block in (*status.port_allocation.retired, *gone) if oldest < block.until]
    return tuple(kept[-MOST:])

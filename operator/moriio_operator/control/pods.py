"""Engine pods: create those that are planned, stop those that go, hear what the ended ones said."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog

from moriio_operator.api import names
from moriio_operator.api.deployment import Owner
from moriio_operator.api.status import Status
from moriio_operator.kube import kinds
from moriio_operator.kube.client import Kube
from moriio_operator.kube.errors import AlreadyExistsError, ApiError, ForbiddenError, InvalidError
from moriio_operator.kube.objects import Object
from moriio_operator.observe.engine import Engine, with_last_words
from moriio_operator.plan.engines import newly_ended

log = structlog.get_logger(__name__)

# A name is often held for a moment only, by what the garbage collector is about to take.
HELD_RETRY_S = 5.0
TAKEN_RETRY_S = 1.0
# Lines of the log of an engine that ended without a termination message.
LAST_LINES = 20


async def create(kube: Kube, owner: Owner, pods: Sequence[Object]) -> float | None:
    """Create engines; give the seconds after which to try the rest.

    One that is refused midway is told by the next pass's rehearsal.
    """
    again_s = None
    for pod in pods:
        name = pod["metadata"]["name"]
        try:
            await kube.create(pod, names.FIELD_MANAGER)
        except AlreadyExistsError:
            # Our own twin after a lost answer, or a stranger, of whom no event may tell: the next
            # pass sees which, and goes on to the next block if it is a stranger.
            log.warning("engine exists", key=owner.key, pod=name)
            again_s = TAKEN_RETRY_S
            continue
        except (ForbiddenError, InvalidError) as error:
            log.warning("engine refused", key=owner.key, pod=name, error=str(error))
            return HELD_RETRY_S
        log.info("engine created", key=owner.key, pod=name)
    return again_s


async def stop(kube: Kube, owner: Owner, engines: Sequence[Engine]) -> float | None:
    """Stop engines; one that cannot be stopped must not keep others from being created."""
    again_s = None
    for engine in engines:
        try:
            await kube.delete(kinds.POD, owner.namespace, engine.pod, engine.uid)
        except ApiError as error:
            log.warning("not stopped", key=owner.key, pod=engine.pod, error=str(error))
            again_s = HELD_RETRY_S
            continue
        log.info("engine stopped", key=owner.key, pod=engine.pod)
    return again_s


async def with_logs(
    kube: Kube, owner: Owner, status: Status, engines: Sequence[Engine]
) -> list[Engine]:
    """Give the engines, those that newly ended without a word with the end of their log."""
    ended = {engine.pod for engine in newly_ended(status, engines)}
    mute = [e for e in engines if e.pod in ended and e.mute is not None]
    # Side by side: those on a dead node take their time to be given up.
    heard = await asyncio.gather(*(_heard(kube, owner, engine) for engine in mute))
    told = {engine.pod: engine for engine in heard}
    return [told.get(engine.pod, engine) for engine in engines]


async def _heard(kube: Kube, owner: Owner, engine: Engine) -> Engine:
    if engine.mute is None:
        return engine
    try:
        text = await kube.log_tail(owner.namespace, engine.pod, engine.mute, LAST_LINES)
    except ApiError:
        return engine
    return with_last_words(engine, text)

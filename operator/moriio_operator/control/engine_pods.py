"""Engine pods: create those that are planned, delete those that go."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from moriio_operator.api import names
from moriio_operator.api.deployment import Owner
from moriio_operator.kube import kinds
from moriio_operator.kube.client import Kube
from moriio_operator.kube.errors import (
    AlreadyExistsError,
    ApiError,
    ForbiddenError,
    InvalidError,
)
from moriio_operator.kube.objects import Object
from moriio_operator.observe.engine import Engine

log = structlog.get_logger(__name__)

# A name is often held for a moment only, by what the garbage collector is about to take.
HELD_RETRY_S = 5.0
TAKEN_RETRY_S = 1.0


async def create(kube: Kube, owner: Owner, pods: Sequence[Object]) -> float | None:
    """Create engines; give the seconds after which to try the rest.

    One that is refused midway is reported by the next pass's dry run.
    """
    again_s = None
    for pod in pods:
        name = pod["metadata"]["name"]
        try:
            await kube.create(pod, names.FIELD_MANAGER)
        except AlreadyExistsError:
            # Our own twin after a lost answer, or a foreign pod, of which no event may come: the
            # next pass sees which, and goes on to the next block if it is foreign.
            log.warning("engine exists", key=owner.key, pod=name)
            again_s = TAKEN_RETRY_S
            continue
        except (ForbiddenError, InvalidError) as error:
            log.warning("engine refused", key=owner.key, pod=name, error=str(error))
            return HELD_RETRY_S
        log.info("engine created", key=owner.key, pod=name)
    return again_s


async def delete(kube: Kube, owner: Owner, engines: Sequence[Engine]) -> float | None:
    """Delete engines; one that cannot be deleted must not keep others from being created."""
    again_s = None
    for engine in engines:
        try:
            await kube.delete(kinds.POD, owner.namespace, engine.pod, engine.uid)
        except ApiError as error:
            log.warning("engine not deleted", key=owner.key, pod=engine.pod, error=str(error))
            again_s = HELD_RETRY_S
            continue
        log.info("engine deleted", key=owner.key, pod=engine.pod)
    return again_s

"""What engines told of the model that they loaded, held against what the user stated.

An engine's own log tells vLLM's version; the registrar beside a router asks the handshake and logs
the answer. Both are read once an engine, and only where there is a statement to compare with. An
engine that could not be heard is asked about again after a while, a few times by itself and then
with the passes that come anyway. What was heard counts for as long as its pod is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from moriio_operator.api import names
from moriio_operator.api.deployment import Owner
from moriio_operator.api.model import Facts
from moriio_operator.api.status import EngineState
from moriio_operator.control.queue import Key
from moriio_operator.facts.versions import Version
from moriio_operator.kube import kinds
from moriio_operator.kube.client import Kube
from moriio_operator.kube.errors import ApiError
from moriio_operator.kube.objects import Object
from moriio_operator.observe.engine import Engine
from moriio_operator.stack.vllm_moriio.description import (
    Description,
    differences,
    of_line,
    version_of_log,
)

log = structlog.get_logger(__name__)

# vLLM introduces itself in the first lines; what comes before are the image's own words.
_HEAD_BYTES = 65_536
_REGISTRAR_LINES = 1_000
AGAIN_S = 10.0
# So often a pass is asked for, to hear one that was not heard.
_WAKES = 3
# Logs that are read at a time: after a restart of the operator every engine is to be heard.
_AT_ONCE = 8


@dataclass(slots=True)
class _Heard:
    """What was heard of one engine, and when it was tried last."""

    version: Version | None = None
    description: Description | None = None
    tries: int = 0
    tried: datetime | None = None

    def lacks(self, facts: Facts, version: Version | None) -> bool:
        """Tell whether something that is stated cannot be compared yet."""
        unknown = version is not None and self.version is None
        return unknown or (facts != Facts() and self.description is None)

    def due(self, now: datetime) -> bool:
        """Tell whether it is time to try again."""
        return self.tried is None or now - self.tried >= timedelta(seconds=AGAIN_S)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What differs from what was stated, and when to ask again; None for not by itself."""

    differences: tuple[str, ...] = ()
    again_s: float | None = None


@dataclass(slots=True)
class Descriptions:
    """What is known, by PDDeployment and engine; of engines that are gone nothing is kept."""

    _heard: dict[Key, dict[str, _Heard]] = field(default_factory=dict)

    def forget(self, key: Key) -> None:
        """Forget a PDDeployment that is gone."""
        self._heard.pop(key, None)

    async def compare(
        self, kube: Kube, owner: Owner, engines: Sequence[Engine], now: datetime
    ) -> Comparison:
        """Hear those engines that serve and were not heard yet; compare what all of them told."""
        facts, version = owner.spec.model.facts, owner.spec.engine.declared_version
        if facts == Facts() and version is None:
            return Comparison()
        key = Key(owner.namespace, owner.name)
        before = self._heard.get(key, {})
        heard = self._heard[key] = {e.uid: before.get(e.uid, _Heard()) for e in engines}
        lacking = [
            engine
            for engine in engines
            if engine.state is EngineState.READY and heard[engine.uid].lacks(facts, version)
        ]
        due = [engine for engine in lacking if heard[engine.uid].due(now)][:_AT_ONCE]
        for engine in due:
            heard[engine.uid].tried = now
            heard[engine.uid].tries += 1
        if version is not None:
            await _hear_versions(kube, owner, due, heard)
        if facts != Facts() and due:
            await _hear_descriptions(kube, owner, heard)
        again = any(
            heard[engine.uid].lacks(facts, version) and heard[engine.uid].tries <= _WAKES
            for engine in lacking
        )
        found = _differences(facts, version, heard.values())
        return Comparison(found, AGAIN_S if again else None)


def _differences(facts: Facts, version: Version | None, heard: Iterable[_Heard]) -> tuple[str, ...]:
    """Name each difference once, however many engines tell it."""
    found: dict[str, None] = {}
    for each in heard:
        told = each.version
        # A build between two releases counts on from the one before.
        if version is not None and told is not None and told.minor_release != version.minor_release:
            text = (
                f"vLLM's version is stated as {version}, and the engine tells {told}: correct "
                "spec.engine.version"
            )
            found[text] = None
        if each.description is not None:
            found |= dict.fromkeys(differences(facts, each.description))
    return tuple(found)


async def _hear_versions(
    kube: Kube, owner: Owner, engines: Sequence[Engine], heard: dict[str, _Heard]
) -> None:
    unheard = [engine for engine in engines if heard[engine.uid].version is None]
    # Side by side: those on a dead node take their time to be given up.
    texts = await asyncio.gather(*(_head(kube, owner, engine.pod) for engine in unheard))
    for engine, text in zip(unheard, texts, strict=True):
        heard[engine.uid].version = version_of_log(text)


async def _head(kube: Kube, owner: Owner, pod: str) -> str:
    reading = kube.log_head(owner.namespace, pod, names.CONTAINER_ENGINE, _HEAD_BYTES)
    return await _text(owner, pod, reading)


async def _hear_descriptions(kube: Kube, owner: Owner, heard: dict[str, _Heard]) -> None:
    for router in await _routers(kube, owner):
        for line in (await _registrar_log(kube, owner, router)).splitlines():
            told = of_line(line)
            if told is not None and told[0] in heard:
                heard[told[0]].description = told[1]
        if all(each.description is not None for each in heard.values()):
            return


async def _routers(kube: Kube, owner: Owner) -> list[str]:
    selector = (
        f"{names.LABEL_DEPLOYMENT}={owner.name},{names.LABEL_COMPONENT}={names.COMPONENT_ROUTER}"
    )
    try:
        pods, _ = await kube.list(kinds.POD, owner.namespace, selector)
    except ApiError as error:
        log.info("routers not read", key=owner.key, error=str(error))
        return []
    return [pod["metadata"]["name"] for pod in pods if _registers(pod)]


def _registers(pod: Object) -> bool:
    statuses = (pod.get("status") or {}).get("initContainerStatuses") or []
    return any(s["name"] == names.CONTAINER_REGISTRAR and s.get("started") for s in statuses)


async def _registrar_log(kube: Kube, owner: Owner, pod: str) -> str:
    where = (owner.namespace, pod, names.CONTAINER_REGISTRAR)
    return await _text(owner, pod, kube.log_tail(*where, _REGISTRAR_LINES))


async def _text(owner: Owner, pod: str, reading: Awaitable[str]) -> str:
    """Give what a log says, or nothing when it cannot be read now."""
    try:
        return await reading
    except ApiError as error:
        log.info("log not read", key=owner.key, pod=pod, error=str(error))
        return ""

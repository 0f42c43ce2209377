"""What engines told of the model that they loaded, held against what the user stated.

An engine's own log tells vLLM's version; the registrar beside a router asks the handshake and logs
the answer. Both are read once an engine, and only where there is a statement to compare with. An
engine that could not be heard is asked about again, a few times and then with the passes that come
anyway: a comparison is a service to the user, and nothing waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import structlog

from moriio_operator.api import names
from moriio_operator.api.deployment import Owner
from moriio_operator.api.model import Facts
from moriio_operator.api.status import EngineState
from moriio_operator.contract.description import (
    Description,
    differences,
    of_line,
    version_of_log,
)
from moriio_operator.contract.versions import Version, stated
from moriio_operator.control.queue import Key
from moriio_operator.kube import kinds
from moriio_operator.kube.client import Kube, Object
from moriio_operator.kube.errors import ApiError
from moriio_operator.plan.engine import Engine

log = structlog.get_logger(__name__)

# vLLM introduces itself in the first lines; what comes before are the image's own words.
_HEAD_BYTES = 65_536
_REGISTRAR_LINES = 1_000
AGAIN_S = 10.0
_TRIES = 3


@dataclass(slots=True)
class _Heard:
    """What was heard of one engine, and how often it was tried."""

    version: Version | None = None
    description: Description | None = None
    tries: int = 0


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

    async def compare(self, kube: Kube, owner: Owner, engines: Sequence[Engine]) -> Comparison:
        """Hear those engines that serve and were not heard yet; compare what all of them told."""
        facts, version = owner.spec.model.facts, stated(owner.spec.engine)
        serving = [engine for engine in engines if engine.state is EngineState.READY]
        if (facts == Facts() and version is None) or not serving:
            return Comparison()
        key = Key(owner.namespace, owner.name)
        before = self._heard.get(key, {})
        heard = self._heard[key] = {e.uid: before.get(e.uid, _Heard()) for e in serving}
        if version is not None:
            await _hear_versions(kube, owner, serving, heard)
        if facts != Facts():
            await _hear_descriptions(kube, owner, heard)
        missing = [
            each
            for each in heard.values()
            if (version is not None and each.version is None)
            or (facts != Facts() and each.description is None)
        ]
        for each in missing:
            each.tries += 1
        again = any(each.tries <= _TRIES for each in missing)
        found = _differences(facts, version, heard.values())
        return Comparison(found, AGAIN_S if again else None)


def _differences(facts: Facts, version: Version | None, heard: Iterable[_Heard]) -> tuple[str, ...]:
    """Name each difference once, however many engines tell it."""
    found: dict[str, None] = {}
    for each in heard:
        if version is not None and each.version not in (None, version):
            text = (
                f"vLLM's version is stated as {version}, and the engine tells {each.version}: "
                "correct spec.engine.version"
            )
            found[text] = None
        if each.description is not None:
            found |= dict.fromkeys(differences(facts, each.description))
    return tuple(found)


async def _hear_versions(
    kube: Kube, owner: Owner, engines: Sequence[Engine], heard: dict[str, _Heard]
) -> None:
    unheard = [e for e in engines if heard[e.uid].version is None and heard[e.uid].tries <= _TRIES]
    # Side by side: those on a dead node take their time to be given up.
    texts = await asyncio.gather(*(_head(kube, owner, engine.pod) for engine in unheard))
    for engine, text in zip(unheard, texts, strict=True):
        heard[engine.uid].version = version_of_log(text)


async def _head(kube: Kube, owner: Owner, pod: str) -> str:
    try:
        return await kube.log_head(owner.namespace, pod, names.CONTAINER_ENGINE, _HEAD_BYTES)
    except ApiError as error:
        log.info("log not read", key=owner.key, pod=pod, error=str(error))
        return ""


async def _hear_descriptions(kube: Kube, owner: Owner, heard: dict[str, _Heard]) -> None:
    wanting = [e for e in heard.values() if e.description is None and e.tries <= _TRIES]
    if not wanting:
        return
    for router in await _routers(kube, owner):
        for line in (await _registrar_log(kube, owner, router)).splitlines():
            told = of_line(line)
            if told is not None and told[0] in heard:
                heard[told[0]].description = told[1]
        if all(each.description is not None for each in wanting):
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
    try:
        return await kube.log_tail(
            owner.namespace, pod, names.CONTAINER_REGISTRAR, _REGISTRAR_LINES
        )
    except ApiError as error:
        log.info("log not read", key=owner.key, pod=pod, error=str(error))
        return ""

"""`python -m bench.bare RECORD NAME UID`: a client that asks what the operator asked, no more.

It learns of PDDeployments by a watch and plays the recorded passes for each, with as many workers
as the operator has, and as late after the first pass as the operator did. When it is late, passes
that are due together become one, as in the operator's queue. What it does not do is observe, plan,
build and compare, so the difference is what the operator itself costs.
"""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from moriio_operator.api.kinds import PDDEPLOYMENT
from moriio_operator.kube.client import Kube
from moriio_operator.kube.errors import NotFoundError
from moriio_operator.kube.objects import Object
from moriio_operator.runtime.settings import Settings

from bench import recording, script
from bench.recording import Recorded
from bench.script import Casting, Pass
from bench.subject import NAMESPACE

READY = "watching"


@dataclass(frozen=True, slots=True)
class _Turn:
    """What is due for one PDDeployment: its next pass, and when its first one began."""

    casting: Casting
    number: int = 0
    began: float = 0


class Bare:
    """The client: a queue of turns, and workers that take them."""

    def __init__(self, kube: Kube, passes: list[Pass], name: str, uid: str) -> None:
        self._kube = kube
        self._passes = passes
        self._name = name
        self._uid = uid
        self._turns: asyncio.Queue[_Turn] = asyncio.Queue()

    async def run(self, workers: int) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch())
            for _ in range(workers):
                group.create_task(self._work())

    async def _watch(self) -> None:
        _, version = await self._kube.list(PDDEPLOYMENT, NAMESPACE)
        print(READY, flush=True)
        while True:
            async for event, obj in self._kube.watch(PDDEPLOYMENT, NAMESPACE, "", version):
                metadata = obj["metadata"]
                version = metadata["resourceVersion"]
                if event == "ADDED":
                    casting = Casting(self._name, self._uid, metadata["name"], metadata["uid"])
                    self._turns.put_nowait(_Turn(casting))

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            turn = await self._turns.get()
            began = turn.began or loop.time()
            due = self._due(turn.number, loop.time() - began)
            await self._play(turn.casting, script.merged(due))
            number = turn.number + len(due)
            if number < len(self._passes):
                at = max(loop.time(), began + self._passes[number].after_s)
                loop.call_at(at, self._turns.put_nowait, _Turn(turn.casting, number, began))

    def _due(self, number: int, since_s: float) -> list[Pass]:
        """Give the passes whose time has come, one at least."""
        later = self._passes[number + 1 :] if number else []
        return [self._passes[number], *(each for each in later if each.after_s <= since_s)]

    async def _play(self, casting: Casting, played: Pass) -> None:
        version = ""
        for batch in played.batches:
            calls = [casting.of(call, version) for call in batch]
            answers = await asyncio.gather(*map(self._send, calls))
            for call, answer in zip(calls, answers, strict=True):
                if call.kind == PDDEPLOYMENT.kind:
                    version = answer.get("metadata", {}).get("resourceVersion", version)

    async def _send(self, call: Recorded) -> Object:
        try:
            # The kind only serves metrics, of which there are none here.
            return await self._kube._call(
                call.verb, PDDEPLOYMENT, call.method, call.path, call.query, call.body,
                content_type=call.content_type,
            )  # fmt: skip
        except NotFoundError:
            return {}  # as it was for the operator, which asks whether a name is free


async def _main(record: Path, name: str, uid: str) -> None:
    passes = script.passes(script.about(recording.read(record), NAMESPACE, name))
    kube = await Kube.connect(os.environ["KUBECONFIG"])
    try:
        await Bare(kube, passes, name, uid).run(Settings.model_fields["workers"].default)
    finally:
        await kube.close()


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1]), *sys.argv[2:]))

"""The user of the benchmark: creates, changes and deletes PDDeployments at a pace of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from moriio_operator.api.kinds import PDDEPLOYMENT
from moriio_operator.kube.client import Kube

from bench.subject import CREATOR, NAMESPACE, manifest

Act: TypeAlias = Callable[[Kube, str], Awaitable[None]]

_OTHER_TIMEOUT_S = 601


def run(kubeconfig: Path, deployments: Sequence[str], per_second: float, act: Act) -> None:
    """Act on one after the other, whether or not the operator is done with those before."""
    asyncio.run(_run(kubeconfig, deployments, per_second, act))


async def _run(kubeconfig: Path, deployments: Sequence[str], per_second: float, act: Act) -> None:
    kube = await Kube.connect(str(kubeconfig))
    loop = asyncio.get_running_loop()
    began = loop.time()

    async def at(index: int, name: str) -> None:
        await asyncio.sleep(began + index / per_second - loop.time())
        await act(kube, name)

    try:
        async with asyncio.TaskGroup() as group:
            for index, name in enumerate(deployments):
                group.create_task(at(index, name))
    finally:
        await kube.close()


async def create(kube: Kube, name: str) -> None:
    """Create a PDDeployment."""
    await kube.create(manifest(name), CREATOR)


async def patch(kube: Kube, name: str) -> None:
    """Change a setting of a PDDeployment that concerns its routers alone."""
    await kube.apply(manifest(name, timeout_s=_OTHER_TIMEOUT_S), CREATOR)


async def delete(kube: Kube, name: str) -> None:
    """Delete a PDDeployment."""
    found = await kube.get(PDDEPLOYMENT, NAMESPACE, name)
    assert found is not None
    await kube.delete(PDDEPLOYMENT, NAMESPACE, name, found["metadata"]["uid"])

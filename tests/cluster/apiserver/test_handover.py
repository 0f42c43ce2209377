"""A leader that is told to stop hands over at once and is gone within a second."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest
from moriio_operator.kube.kinds import LEASE
from stage.lane import Lane, until
from stage.operator_process import LEASE as NAME
from stage.operator_process import Anew

pytestmark = [pytest.mark.alone, pytest.mark.load(4)]

AT_MOST_S = 1.0
RESYNC_S = 300.0


async def holder(lane: Lane) -> str:
    """Who holds the Lease; empty for nobody."""
    lease = await lane.api.find(LEASE, lane.namespace, NAME)
    return str((lease or {}).get("spec", {}).get("holderIdentity") or "")


@pytest.mark.parametrize("scraped", [False, True], ids=["alone", "scraped"])
async def test_a_leader_that_is_told_to_stop_lets_go_and_ends_within_a_second(
    kubeconfig: Path, fresh_name: Callable[[], str], tmp_path: Path, *, scraped: bool
) -> None:
    async with (
        Anew.starter() as starter,
        Lane.opened(kubeconfig, fresh_name(), tmp_path, starter, resync_s=RESYNC_S) as lane,
        # A scraper keeps its connection open between two scrapes.
        aiohttp.ClientSession() as scraper,
    ):
        process = await lane.start()
        await lane.watching()
        await lane.create("llm")
        await lane.settled("llm")
        if scraped:
            url = f"http://127.0.0.1:{process.http_port}/metrics"
            async with scraper.get(url) as response:
                assert "moriio_operator_leader 1.0" in await response.text()
        assert await holder(lane)

        began = time.monotonic()
        process.signal(signal.SIGTERM)
        await process.ended()
        assert time.monotonic() - began < AT_MOST_S
        assert await starter.exit_code(process) == 0
        assert await holder(lane) == ""


async def test_a_standby_leads_as_soon_as_the_leader_lets_go(
    kubeconfig: Path, fresh_name: Callable[[], str], tmp_path: Path
) -> None:
    async with (
        Anew.starter() as starter,
        Lane.opened(kubeconfig, fresh_name(), tmp_path, starter, resync_s=RESYNC_S) as lane,
    ):
        leader = await lane.start()
        await lane.watching()
        first = await holder(lane)
        standby = await lane.start()
        await until(standby.ready, "the standby to be ready")
        assert await holder(lane) == first

        async def another() -> bool:
            return await holder(lane) not in ("", first)

        leader.signal(signal.SIGTERM)
        began = time.monotonic()
        await until(another, "the standby to lead")
        # It looks every two seconds, give or take a tenth.
        assert time.monotonic() - began < 3.5
        await leader.ended()
        await lane.create("llm")
        await lane.settled("llm")

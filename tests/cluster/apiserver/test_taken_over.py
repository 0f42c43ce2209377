"""What a released operator left of a deployment that serves, this one takes over as it is.

The objects are those of the golden files of the release. The API server stores them under this
version's definitions, so it is also seen that it keeps what the operator still reads of them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from moriio_operator.api import names
from moriio_operator.api.kinds import PDDEPLOYMENT
from moriio_operator.kube import kinds
from moriio_operator.kube.client import Kube
from moriio_operator.kube.kinds import kind_of
from moriio_operator.kube.objects import Object
from stage.api import Json
from stage.lane import Lane
from stage.operator_process import ForkServer
from unit.test_api_upgrade import FILES

NAME = "llm"
# Nothing of it is to run: the objects are what counts.
NOWHERE = {"moriio.dev/test": "nowhere"}


async def stored(lane: Lane, kubeconfig: Path, objects: list[Json]) -> Json:
    """Store what a release left; give the PDDeployment."""
    [left] = [obj for obj in objects if obj["kind"] == PDDEPLOYMENT.kind]
    made = await lane.api.create(PDDEPLOYMENT, _in(lane, left, None))
    status = {
        "apiVersion": left["apiVersion"],
        "kind": left["kind"],
        "metadata": {"name": NAME, "namespace": lane.namespace},
        "status": left["status"],
    }
    kube = await Kube.connect(str(kubeconfig))
    try:
        # As the operator of that release wrote it: what is left out later goes.
        made = await kube.apply(status, names.STATUS_MANAGER, "status")
    finally:
        await kube.close()
    for obj in objects:
        if obj["kind"] != PDDEPLOYMENT.kind:
            await lane.api.create(kind_of(obj), _in(lane, obj, made["metadata"]["uid"]))
    return made


def _in(lane: Lane, obj: Object, owner_uid: str | None) -> Object:
    """Give an object for this namespace, owned by the PDDeployment of this uid."""
    placed = copy.deepcopy(obj)
    metadata = placed["metadata"]
    for field in ("uid", "generation", "creationTimestamp"):
        metadata.pop(field, None)
    metadata["namespace"] = lane.namespace
    for reference in metadata.get("ownerReferences") or []:
        reference["uid"] = owner_uid
    for subject in placed.get("subjects") or []:
        subject["namespace"] = lane.namespace
    if obj["kind"] == "Pod":
        placed["spec"]["nodeSelector"] = NOWHERE
    placed.pop("status", None)
    return placed


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def objects(request: pytest.FixtureRequest) -> list[Json]:
    """All objects that a release left."""
    return list(yaml.safe_load_all(request.param.read_text()))


async def test_no_engine_and_no_router_is_restarted(
    objects: list[Json], kubeconfig: Path, tmp_path: Path, fresh_name: Callable[[], str]
) -> None:
    async with (
        ForkServer.starter(tmp_path / "forks.log") as starter,
        Lane.opened(kubeconfig, fresh_name(), tmp_path, starter) as lane,
    ):
        lane.changes["policy"] = {
            "privilegedNamespaces": [lane.namespace],
            "hostPathPrefixes": ["/srv/models"],
        }
        resource = await stored(lane, kubeconfig, objects)
        cursor = resource["status"]["portCursor"]
        before = await identities(lane)
        await lane.start()

        async def taken_over() -> bool:
            now = await lane.api.get(PDDEPLOYMENT, lane.namespace, NAME)
            allocation = now["status"].get("portAllocation", {})
            return bool(allocation.get("cursor") == cursor and "portCursor" not in now["status"])

        await lane.until(taken_over, "the status to be written under its new names")
        assert await identities(lane) == before
        accepted = (await lane.state(NAME)).condition("Accepted")
        assert accepted["status"] == "True", accepted


async def identities(lane: Lane) -> dict[str, tuple[str, Json | None]]:
    """Give every engine pod, template and router Deployment by its uid and what it makes pods of.

    The generation of a Deployment says less: it grows with an annotation, too, and the hash in ours
    holds the owner's uid, which is another one here.
    """
    looked_at = (kinds.POD, kinds.CONTROLLER_REVISION, kinds.DEPLOYMENT)
    return {
        f"{kind.kind} {obj['metadata']['name']}": (
            obj["metadata"]["uid"],
            obj["spec"]["template"] if kind is kinds.DEPLOYMENT else None,
        )
        for kind in looked_at
        for obj in await lane.api.list(kind, lane.namespace, deployment=NAME)
        if kind is not kinds.POD or obj["metadata"]["labels"]["moriio.dev/component"] == "engine"
    }

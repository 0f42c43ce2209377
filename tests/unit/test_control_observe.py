"""The world is read live, and only what this very PDDeployment controls is in it."""

from __future__ import annotations

from typing import Any

import pytest
from moriio_operator.api import names
from moriio_operator.api.kinds import PDREPORT
from moriio_operator.control.child_cache import ChildCache, ObservedVersion
from moriio_operator.control.observe import World, observe
from moriio_operator.control.queue import Key
from moriio_operator.facts.terms import ROLES
from moriio_operator.kube.errors import ApiError, ForbiddenError, NotFoundError
from moriio_operator.kube.kinds import Kind

from unit.memory_kube import MemoryKube
from unit.samples import Json, children_of, laid_over, owner, pod, resource

KEY = Key("team", "llm")


def ours() -> list[Json]:
    return children_of(owner())


async def seen(*objects: Json) -> World:
    world = await observe(MemoryKube(resource(status={}), *objects), ChildCache(), KEY)
    assert world is not None
    return world


async def test_engines_and_children_are_told_apart() -> None:
    world = await seen(*ours(), pod(0), pod(4, ROLES[1]))
    assert [p["metadata"]["name"] for p in world.pods] == ["llm-decode-4", "llm-prefill-0"]
    assert sorted(child["kind"] for child in world.children) == [
        *["ControllerRevision"] * 2,
        "Deployment",
        "RoleBinding",
        *["Service"] * 3,
        "ServiceAccount",
    ]


@pytest.mark.parametrize(
    "references",
    [
        None,
        [],
        [{"uid": "other", "controller": True, "name": "llm", "kind": "PDDeployment"}],
        [{"uid": resource()["metadata"]["uid"], "name": "llm", "kind": "PDDeployment"}],
    ],
)
async def test_what_another_controls_is_not_ours_whatever_its_labels(references: Any) -> None:
    foreign = [laid_over(obj, {"metadata": {"ownerReferences": references}}) for obj in ours()]
    stranger = laid_over(pod(), {"metadata": {"ownerReferences": references}})
    world = await seen(*foreign, stranger)
    assert (world.pods, world.children) == ((), ())


async def test_a_router_pod_is_no_engine() -> None:
    router = laid_over(pod(), {"metadata": {"labels": {"moriio.dev/component": "router"}}})
    assert (await seen(router)).pods == ()


async def test_a_neighbours_children_are_not_seen() -> None:
    neighbour = laid_over(pod(), {"metadata": {"labels": {"moriio.dev/deployment": "other"}}})
    assert (await seen(neighbour)).pods == ()


async def test_a_child_is_found_by_kind_and_name() -> None:
    world = await seen(*ours())
    assert (world.child("Service", "llm") or {})["kind"] == "Service"
    assert (world.child("ServiceAccount", "llm-router") or {})["kind"] == "ServiceAccount"
    assert world.child("Deployment", "llm") is None


@pytest.mark.parametrize("gone", [True, False])
async def test_a_deployment_that_is_gone_or_going_has_no_world(*, gone: bool) -> None:
    going = laid_over(resource(), {"metadata": {"deletionTimestamp": "2026-05-04T12:00:00Z"}})
    kube = MemoryKube(pod(), *([] if gone else [going]))
    assert await observe(kube, ChildCache(), KEY) is None


def report(name: str, deployment: str = "llm", **fields: Any) -> Json:
    """A report as a router pod writes it: the pod is its controller."""
    reference = {"kind": "Pod", "name": name, "uid": f"uid-{name}", "controller": True}
    metadata = {
        "name": name,
        "namespace": "team",
        "labels": names.base_labels(deployment),
        "ownerReferences": [reference],
    }
    content = {"engines": [{"podUID": f"of-{name}"}], "renewTime": "2026-05-04T12:00:00Z"}
    kind = {"apiVersion": names.API_VERSION, "kind": "PDReport", "metadata": metadata}
    return {**kind, **content, **fields}


async def test_reports_are_those_that_carry_the_label_and_can_be_read_and_are_no_children() -> None:
    strange = report("c", engines="of another version")
    world = await seen(report("a"), report("b"), strange, report("d", "other"))
    assert [each.engines[0].pod_uid for each in world.reports] == ["of-a", "of-b"]
    assert world.children == ()


class Lists(MemoryKube):
    """Counts lists of reports, and may refuse them."""

    def __init__(self, *objects: Json, error: ApiError | None = None) -> None:
        super().__init__(*objects)
        self.lists = 0
        self.error = error

    async def list(
        self, kind: Kind, namespace: str | None = None, selector: str = "", fields: str = ""
    ) -> tuple[list[Json], str]:
        if kind == PDREPORT:
            self.lists += 1
            if self.error is not None:
                raise self.error
        return await super().list(kind, namespace, selector, fields)


async def test_reports_are_read_again_only_when_an_event_puts_them_in_doubt() -> None:
    kube, cache = Lists(resource(status={}), report("a")), ChildCache()
    for _ in range(2):
        await observe(kube, cache, KEY)
    assert kube.lists == 1
    changed = kube.put(report("a", engines=[{"podUID": "u-2"}]))["metadata"]
    sighting = ObservedVersion("PDReport", "a", changed["uid"], changed["resourceVersion"])
    assert cache.invalidate(KEY, sighting)
    world = await observe(kube, cache, KEY)
    assert world is not None
    assert (kube.lists, world.reports[0].engines[0].pod_uid) == (2, "u-2")


@pytest.mark.parametrize(
    "error", [NotFoundError(404, "NotFound", "no kind"), ForbiddenError(403, "Forbidden", "no")]
)
async def test_without_their_definition_or_the_right_there_are_no_reports(error: ApiError) -> None:
    kube, cache = Lists(resource(status={}), report("a"), *ours(), error=error), ChildCache()
    for _ in range(2):
        world = await observe(kube, cache, KEY)
        assert world is not None
        assert (world.reports, len(world.children)) == ((), len(ours()))
    assert kube.lists == 1, "until an event or the resync"

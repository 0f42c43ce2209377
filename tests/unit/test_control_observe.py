"""The world is read live, and only what this very PDDeployment controls is in it."""

from __future__ import annotations

from typing import Any

import pytest
from moriio_operator.control.child_cache import ChildCache
from moriio_operator.control.observe import World, observe
from moriio_operator.control.queue import Key
from moriio_operator.facts.terms import ROLES

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

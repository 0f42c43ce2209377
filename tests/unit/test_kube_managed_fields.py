"""Before its first apply an object that was created becomes one that was applied."""

from __future__ import annotations

import pytest
from moriio_operator.kube import kinds
from moriio_operator.kube.objects import as_applied

from unit.samples import Json
from unit.scripted_api import Answer, ScriptedApi, error, serving

MINE: Json = {"manager": "me", "operation": "Update", "fieldsV1": {"f:spec": {}}}
OTHERS: Json = {"manager": "kubelet", "operation": "Update", "subresource": "status"}


def live(*entries: Json) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "s",
            "namespace": "team",
            "resourceVersion": "7",
            "managedFields": list(entries),
        },
    }


def test_what_was_created_becomes_applied_and_nothing_else_changes() -> None:
    assert as_applied(live(OTHERS, MINE), "me") == [OTHERS, {**MINE, "operation": "Apply"}]


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [OTHERS],
        [{**MINE, "operation": "Apply"}],
        [{**MINE, "operation": "Apply"}, MINE],
        [{**MINE, "subresource": "status"}],
        [{**MINE, "manager": "another"}],
    ],
    ids=["none", "others", "applied", "both", "status", "another"],
)
def test_what_was_applied_or_is_not_ours_stays(entries: list[Json]) -> None:
    assert as_applied(live(*entries), "me") is None


async def test_the_patch_is_bound_to_the_version_that_was_read() -> None:
    api = ScriptedApi()
    api.add(Answer(live(MINE)), Answer(live()))
    async with serving(api) as kube:
        await kube.own(kinds.SERVICE, "team", "s", "me")
    _, patch = api.calls
    assert (patch.method, patch.path) == ("PATCH", "/api/v1/namespaces/team/services/s")
    assert patch.headers["Content-Type"] == "application/json-patch+json"
    assert patch.body == [
        {
            "op": "replace",
            "path": "/metadata/managedFields",
            "value": [{**MINE, "operation": "Apply"}],
        },
        {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
    ]


@pytest.mark.parametrize("found", [Answer(live(OTHERS)), error(404, "NotFound")])
async def test_where_nothing_is_due_nothing_is_written(found: Answer) -> None:
    api = ScriptedApi()
    api.add(found)
    async with serving(api) as kube:
        await kube.own(kinds.SERVICE, "team", "s", "me")
    assert len(api.calls) == 1

"""Other hands on what is ours, and our names in other hands.

What is ours is mended; what is not is never adopted, changed or deleted, whatever its name says.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from moriio_operator.api.kinds import OWNED, PDDEPLOYMENT
from moriio_operator.kube import kinds
from moriio_operator.kube.kinds import Kind
from stage.api import Json
from stage.apicall import Call, Refusal
from stage.lane import Lane, ports
from stage.operator_process import ForkServer

pytestmark = pytest.mark.parts(4)

# No resync comes to help.
NEVER_S = 3600.0
NAME = "llm"
FINALIZER = "test.example/held"


@asynccontextmanager
async def running(kubeconfig: Path, namespace: str, folder: Path) -> AsyncIterator[Lane]:
    """An operator that watches a namespace in which there is nothing."""
    async with (
        ForkServer.starter(folder / "forks.log") as server,
        Lane.opened(kubeconfig, namespace, folder, server, resync_s=NEVER_S) as lane,
    ):
        await lane.start()
        await lane.watching()
        yield lane


@asynccontextmanager
async def serving(kubeconfig: Path, namespace: str, folder: Path) -> AsyncIterator[Lane]:
    """An operator with a PDDeployment that is settled."""
    async with running(kubeconfig, namespace, folder) as lane:
        await lane.create(NAME)
        await lane.settled(NAME)
        yield lane


async def the_child(lane: Lane, kind: Kind) -> Json:
    """Give a child of a kind: the client Service, the router Deployment."""
    uid = (await lane.state(NAME)).resource["metadata"]["uid"]
    owned = [
        child
        for child in await lane.api.list(kind, lane.namespace)
        if [r["uid"] for r in child["metadata"].get("ownerReferences") or []] == [uid]
    ]
    return min(owned, key=lambda child: len(child["metadata"]["name"]))


def essence(child: Json) -> Json:
    """Give what of a child is the operator's business."""
    metadata = child["metadata"]
    kept = {key: child.get(key) for key in ("spec", "subjects", "roleRef", "data")}
    # The addresses of a Service are the API server's.
    kept["spec"] = {k: v for k, v in (kept["spec"] or {}).items() if not k.startswith("clusterIP")}
    return {**kept, "labels": metadata["labels"], "owners": metadata["ownerReferences"]}


EVE = {"kind": "User", "name": "eve", "apiGroup": "rbac.authorization.k8s.io"}
EDITS: dict[str, tuple[Kind, Json]] = {
    "selector": (kinds.SERVICE, {"spec": {"selector": {"moriio.dev/component": "other"}}}),
    "selector-more": (kinds.SERVICE, {"spec": {"selector": {"color": "red"}}}),
    "service-label": (kinds.SERVICE, {"metadata": {"labels": {"moriio.dev/deployment": None}}}),
    "service-managed-by": (
        kinds.SERVICE,
        {"metadata": {"labels": {"app.kubernetes.io/managed-by": None}}},
    ),
    "replicas": (kinds.DEPLOYMENT, {"spec": {"replicas": 7}}),
    "subjects": (kinds.ROLE_BINDING, {"subjects": [EVE]}),
    "account-label": (
        kinds.SERVICE_ACCOUNT,
        {"metadata": {"labels": {"moriio.dev/deployment": "other"}}},
    ),
}


@pytest.mark.parametrize("edit", EDITS)
async def test_what_another_manager_changes_is_changed_back(
    edit: str, kubeconfig: Path, tmp_path: Path, fresh_name: Callable[[], str]
) -> None:
    kind, change = EDITS[edit]
    async with serving(kubeconfig, fresh_name(), tmp_path) as lane:
        before = await the_child(lane, kind)
        edited = await lane.api.merge(kind, lane.namespace, before["metadata"]["name"], change)
        assert essence(edited) != essence(before)

        async def mended() -> bool:
            return essence(await the_child(lane, kind)) == essence(before)

        await lane.until(mended, f"the {edit} to be changed back", timeout_s=15)
        assert (await the_child(lane, kind))["metadata"]["uid"] == before["metadata"]["uid"]


@pytest.mark.parametrize(
    "kind", [kind for kind in OWNED if kind is not kinds.POD], ids=lambda kind: kind.plural
)
async def test_what_somebody_deletes_comes_back(
    kind: Kind, kubeconfig: Path, tmp_path: Path, fresh_name: Callable[[], str]
) -> None:
    async with serving(kubeconfig, fresh_name(), tmp_path) as lane:
        before, engines = await the_child(lane, kind), (await lane.state(NAME)).pod_names
        await lane.api.delete(kind, lane.namespace, before["metadata"]["name"])

        async def back() -> bool:
            found = await lane.api.find(kind, lane.namespace, before["metadata"]["name"])
            return found is not None and found["metadata"]["uid"] != before["metadata"]["uid"]

        await lane.until(back, f"the {kind.kind} to come back", timeout_s=15)
        after = await lane.settled(NAME)
        assert essence(await the_child(lane, kind)) == essence(before)
        assert after.pod_names == engines


ROLE_REF = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "strangers"}
# The names that a PDDeployment `llm` will want, whatever its revision.
TAKEN: dict[str, tuple[Kind, Json]] = {
    "service": (
        kinds.SERVICE,
        {"metadata": {"name": NAME}, "spec": {"ports": [{"port": 1}]}},
    ),
    "account": (kinds.SERVICE_ACCOUNT, {"metadata": {"name": f"{NAME}-router"}}),
    "binding": (
        kinds.ROLE_BINDING,
        {"metadata": {"name": f"{NAME}-router"}, "roleRef": ROLE_REF, "subjects": [EVE]},
    ),
}


async def stranger(lane: Lane, what: str, owner: Json | None, labels: Json) -> Json:
    """Create an object of somebody else, under a name that we shall want."""
    kind, body = TAKEN[what]
    metadata = {**body["metadata"], "namespace": lane.namespace, "labels": labels}
    if owner is not None:
        metadata["ownerReferences"] = [
            {
                "apiVersion": owner["apiVersion"],
                "kind": owner["kind"],
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
                "controller": True,
            }
        ]
    made = {"apiVersion": kind.api_version, "kind": kind.kind, **body, "metadata": metadata}
    return await lane.api.create(kind, made)


OURS = {"moriio.dev/deployment": NAME, "app.kubernetes.io/managed-by": "moriio-operator"}


@pytest.mark.parametrize("owned", ["nobody's", "another's", "nobody's-with-our-labels"])
@pytest.mark.parametrize("what", TAKEN)
async def test_an_object_of_somebody_else_is_left_alone_and_waited_for(
    what: str, owned: str, kubeconfig: Path, tmp_path: Path, fresh_name: Callable[[], str]
) -> None:
    async with running(kubeconfig, fresh_name(), tmp_path) as lane:
        owner = None
        if owned == "another's":
            # Of our kind, too; it must live, or the garbage collector would take the object.
            owner = await lane.create("other", decode={"replicas": 1})
            await lane.settled("other")
        theirs = await stranger(lane, what, owner, OURS if "labels" in owned else {})
        await lane.create(NAME)
        await left_alone(lane, what, theirs)


async def left_alone(lane: Lane, what: str, theirs: Json) -> None:
    """See that the stranger's object is told and not touched; and that its end is all it takes."""
    kind, name = TAKEN[what][0], theirs["metadata"]["name"]

    async def told() -> bool:
        accepted = (await lane.state(NAME)).condition("Accepted")
        return (accepted.get("status"), accepted.get("reason")) == ("False", "NameTaken")

    await lane.until(told, "the taken name to be told")
    state = await lane.state(NAME)
    assert f"{kind.kind} {name} exists" in state.condition("Accepted")["message"]
    assert state.pods == []
    now = await lane.api.get(kind, lane.namespace, name)
    assert now["metadata"]["resourceVersion"] == theirs["metadata"]["resourceVersion"]
    await lane.api.delete(kind, lane.namespace, name)
    after = await lane.settled(NAME)
    assert after.condition("Accepted")["status"] == "True"


async def test_a_name_that_is_taken_while_we_reach_for_it_is_not_adopted(
    kubeconfig: Path, tmp_path: Path, fresh_name: Callable[[], str]
) -> None:
    async with running(kubeconfig, fresh_name(), tmp_path) as lane:
        theirs: list[Json] = []

        async def be_faster(call: Call) -> Refusal | None:
            # The write is on its way, and whatever was looked up before it is old by now.
            if call.writes and (call.resource, call.name) == ("services", NAME) and not theirs:
                theirs.append(await stranger(lane, "service", None, {}))
            return None

        lane.proxy.before = be_faster
        await lane.create(NAME)
        await left_alone(lane, "service", await arrived(lane, theirs))


async def arrived(lane: Lane, theirs: list[Json]) -> Json:
    """Wait until the stranger was faster."""

    async def there() -> bool:
        return bool(theirs)

    await lane.until(there, "the write")
    return theirs[0]


@pytest.mark.parametrize("labels", [{}, OURS], ids=["plain", "with-our-labels"])
async def test_a_pod_of_somebody_else_under_the_next_engines_name_costs_a_block_and_no_more(
    labels: Json, kubeconfig: Path, tmp_path: Path, fresh_name: Callable[[], str]
) -> None:
    async with serving(kubeconfig, fresh_name(), tmp_path) as lane:
        before = await lane.state(NAME)
        cursor = before.resource["status"]["portAllocation"]["cursor"]
        theirs = await lane.api.create(
            kinds.POD,
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"{NAME}-decode-{cursor}",
                    "namespace": lane.namespace,
                    "labels": {**labels, "moriio.dev/component": "engine"},
                },
                "spec": {
                    "schedulerName": "nobody",
                    "containers": [{"name": "engine", "image": "theirs"}],
                },
            },
        )
        await lane.change(NAME, decode={"replicas": 2})
        after = await lane.settled(NAME)
        name = theirs["metadata"]["name"]
        assert set(before.pod_names) < set(after.pod_names)
        assert name not in after.pod_names
        now = await lane.api.get(kinds.POD, lane.namespace, name)
        assert now["metadata"]["resourceVersion"] == theirs["metadata"]["resourceVersion"]
        assert_disjoint(after.pods)


def assert_disjoint(pods: list[Json]) -> None:
    for one, other in combinations(pods, 2):
        assert not set(ports(one)) & set(ports(other)), [p["metadata"]["name"] for p in pods]


LABELS: dict[str, Json] = {
    "component-removed": {"moriio.dev/component": None},
    "deployment-removed": {"moriio.dev/deployment": None},
    "deployment-changed": {"moriio.dev/deployment": "other"},
    "managed-by-removed": {"app.kubernetes.io/managed-by": None},
    "revision-removed": {"moriio.dev/revision": None},
    "revision-changed": {"moriio.dev/revision": "bcdfghjk"},
    "role-removed": {"moriio.dev/role": None},
    "role-changed": {"moriio.dev/role": "prefill"},
}


@pytest.mark.parametrize("labels", LABELS)
async def test_an_engine_whose_labels_are_changed_does_no_harm_to_the_others(
    labels: str, kubeconfig: Path, tmp_path: Path, fresh_name: Callable[[], str]
) -> None:
    async with serving(kubeconfig, fresh_name(), tmp_path) as lane:
        before = await lane.state(NAME)
        (victim,) = (name for name in before.pod_names if "decode" in name)
        (other,) = (name for name in before.pod_names if "prefill" in name)
        await lane.api.merge(
            kinds.POD, lane.namespace, victim, {"metadata": {"labels": LABELS[labels]}}
        )

        async def whole() -> bool:
            return serve_whole(await lane.state(NAME))

        # Whether the engine gets its labels back, or another takes its place: the Services, which
        # select by labels, must find one of each role.
        await lane.until(whole, "one engine of each role with its labels", timeout_s=20)
        after = await lane.state(NAME)
        assert other in after.pod_names, "an engine that nobody touched was stopped"
        assert_disjoint(after.pods)


def serve_whole(state: Any) -> bool:
    """Return whether a Service of each role finds exactly one engine that is here to stay."""
    found = []
    for pod in state.pods:
        labels = pod["metadata"].get("labels", {})
        wanted = {
            "moriio.dev/deployment": NAME,
            "moriio.dev/component": "engine",
            "moriio.dev/revision": state.resource["status"]["revision"],
        }
        selected = wanted.items() <= labels.items() and "moriio.dev/role" in labels
        if selected and "deletionTimestamp" not in pod["metadata"]:
            found.append((labels["moriio.dev/role"], pod["metadata"]["name"].split("-")[1]))
    return sorted(found) == [("decode", "decode"), ("prefill", "prefill")]


async def hold(lane: Lane, kind: Kind, name: str) -> None:
    """Keep an object from going when it is deleted, as a long grace does."""
    await lane.api.merge(kind, lane.namespace, name, {"metadata": {"finalizers": [FINALIZER]}})


async def let_go(lane: Lane, kind: Kind, name: str) -> None:
    await lane.api.merge(kind, lane.namespace, name, {"metadata": {"finalizers": None}})


async def replaced(lane: Lane) -> Json:
    """Delete the PDDeployment and create one of the same name; give the old one."""
    old = await lane.api.get(PDDEPLOYMENT, lane.namespace, NAME)
    await lane.api.delete(PDDEPLOYMENT, lane.namespace, NAME)
    await lane.create(NAME)
    return old


async def test_a_namesake_comes_up_beside_engines_that_still_drain(
    kubeconfig: Path, tmp_path: Path, fresh_name: Callable[[], str]
) -> None:
    async with serving(kubeconfig, fresh_name(), tmp_path) as lane:
        draining = (await lane.state(NAME)).pods
        for pod in draining:
            await hold(lane, kinds.POD, pod["metadata"]["name"])
        old = await replaced(lane)
        after = await lane.settled(NAME)
        names = [pod["metadata"]["name"] for pod in draining]
        assert not set(after.pod_names) & set(names)
        # The old ones may still be known to somebody at their ports.
        assert_disjoint([*after.pods, *draining])
        for name in names:
            pod = await lane.api.get(kinds.POD, lane.namespace, name)
            assert pod["metadata"]["ownerReferences"][0]["uid"] == old["metadata"]["uid"]
            assert "deletionTimestamp" in pod["metadata"]
            await let_go(lane, kinds.POD, name)

        async def gone() -> bool:
            found = [await lane.api.find(kinds.POD, lane.namespace, name) for name in names]
            return not any(found)

        await lane.until(gone, "the old engines to go")
        assert (await lane.settled(NAME)).pod_names == after.pod_names


async def test_a_namesake_waits_for_the_names_of_the_old_ones_children(
    kubeconfig: Path, tmp_path: Path, fresh_name: Callable[[], str]
) -> None:
    async with serving(kubeconfig, fresh_name(), tmp_path) as lane:
        await hold(lane, kinds.SERVICE, NAME)
        old = await replaced(lane)

        async def told() -> bool:
            accepted = (await lane.state(NAME)).condition("Accepted")
            return "is still there from an earlier" in accepted.get("message", "")

        await lane.until(told, "the held name to be told")
        assert (await lane.state(NAME)).pods == []
        service = await lane.api.get(kinds.SERVICE, lane.namespace, NAME)
        assert service["metadata"]["ownerReferences"][0]["uid"] == old["metadata"]["uid"]
        await let_go(lane, kinds.SERVICE, NAME)
        after = await lane.settled(NAME)
        assert after.condition("Accepted")["status"] == "True"
        assert (await the_child(lane, kinds.SERVICE))["metadata"]["uid"] != (
            service["metadata"]["uid"]
        )


async def test_namesakes_one_after_the_other_come_up_without_help(
    kubeconfig: Path, tmp_path: Path, fresh_name: Callable[[], str]
) -> None:
    async with serving(kubeconfig, fresh_name(), tmp_path) as lane:
        children = (await lane.state(NAME)).children
        for _ in range(3):
            old = await replaced(lane)
        after = await lane.settled(NAME)
        assert after.children == children
        assert after.resource["metadata"]["uid"] != old["metadata"]["uid"]

        async def alone() -> bool:
            pods = await lane.api.list(kinds.POD, lane.namespace, component="engine")
            return sorted(pod["metadata"]["name"] for pod in pods) == after.pod_names

        await lane.until(alone, "the old engines to go")

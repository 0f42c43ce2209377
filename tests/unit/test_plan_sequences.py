"""Whole sequences: a deployment is played to rest, and every pass did exactly this to engines."""

from __future__ import annotations

import contextlib

import pytest
from moriio_operator.api.ports import PortRange
from moriio_operator.kube.errors import ApiError
from moriio_operator.kube.objects import Object

from unit.memory_kube import CrashError, MemoryKube
from unit.passes import FORBIDDEN, INVALID, WEBHOOK, dies, fresh, living, refuse, serving
from unit.played import Operator
from unit.samples import Json, ended, laid_over, later, resource
from unit.sequences import played

IMAGE_2: Json = {"engine": {"image": "vllm:2"}}
# The API server takes it and the operator refuses it.
REFUSED: Json = {"podTemplate": {"spec": {"nodeName": "n1"}}}
SIX: Json = {"prefill": {**REFUSED, "replicas": 6}, "decode": {**REFUSED, "replicas": 6}}


def images(operator: Operator) -> set[str]:
    pods = operator.kube.of_kind("Pod")
    return {pod["spec"]["containers"][0]["image"] for pod in pods}


async def test_a_new_deployment_gets_all_its_engines_at_once() -> None:
    operator = fresh({"decode": {"replicas": 2}})
    assert await played(operator) == ["+prefill-0 +decode-4 +decode-8"]


async def test_a_change_of_counts_changes_each_role_alone() -> None:
    operator = await serving({"decode": {"replicas": 2}})
    operator.change({"prefill": {"replicas": 2}, "decode": {"replicas": 1}})
    assert await played(operator) == ["-decode-8 +prefill-12"]


async def test_an_update_stops_all_and_then_starts_all() -> None:
    operator = await serving()
    operator.change(IMAGE_2)
    assert await played(operator) == ["-prefill-0 -decode-4", "+prefill-8 +decode-12"]


async def test_a_change_that_is_taken_back_before_its_drain_is_over_comes_back_at_once() -> None:
    operator = await serving()
    operator.change(IMAGE_2)
    await operator.step()
    operator.change({"engine": {"image": "vllm:1"}})
    assert await played(operator) == ["+prefill-8 +decode-12"]
    assert images(operator) == {"vllm:1"}


async def test_an_engine_that_fails_is_replaced_and_then_deleted() -> None:
    operator = await serving()
    dies(operator, "llm-decode-4")
    assert await played(operator) == ["+decode-8 -decode-4"]


async def test_a_refused_spec_on_top_of_a_drain_does_not_undo_the_change_before_it() -> None:
    # Accepted: vllm:2 with one engine per role. While vllm:1 drains, a refused spec asks for six.
    operator = await serving()
    operator.change(IMAGE_2)
    await operator.step()
    operator.change(SIX)
    assert await played(operator) == ["+prefill-8 +decode-12"]
    assert images(operator) == {"vllm:2"}
    assert {(role.name, role.desired) for role in operator.status.roles} == {
        ("prefill", 1),
        ("decode", 1),
    }
    assert operator.condition("Accepted").reason == "TemplateRefused"


async def test_a_refused_spec_whose_drain_is_over_brings_back_the_counts_that_were_accepted() -> (
    None
):
    operator = await serving({"decode": {"replicas": 2}})
    operator.change(SIX)
    dies(operator, "llm-decode-4")
    assert await played(operator) == ["+decode-12 -decode-4"]
    assert [role.desired for role in operator.status.roles] == [1, 2]


async def test_of_a_status_that_does_not_read_in_one_place_the_rest_counts() -> None:
    operator = await serving()
    status = operator.kube.one("PDDeployment", "llm")["status"]
    status["engines"][0]["state"] = "Levitating"
    operator.change(SIX)
    dies(operator, "llm-decode-4")
    assert await played(operator) == ["+decode-8 -decode-4"]
    assert [role.desired for role in operator.status.roles] == [1, 1]


async def test_without_the_counts_that_were_accepted_a_refused_spec_changes_nothing() -> None:
    operator = await serving()
    operator.kube.one("PDDeployment", "llm")["status"]["roles"] = "gone"
    operator.change(SIX)
    dies(operator, "llm-decode-4")
    assert await played(operator) == []
    assert operator.status.roles == []
    assert "6 engines" in operator.condition("PrefillReady").message


async def test_a_router_that_the_next_revision_cannot_have_stops_nothing() -> None:
    operator = await serving()

    def new_router(obj: Object) -> bool:
        return obj["kind"] == "Deployment" and "sgntrwxt" not in obj["metadata"]["name"]

    operator.kube.refuse = refuse("dry-run", "Deployment", INVALID, new_router)
    operator.change({**IMAGE_2, "router": {"resources": {"requests": {"cpu": "2"}}}})
    assert await played(operator) == []
    assert operator.condition("Accepted").reason == "ChildRefused"
    assert operator.condition("Ready").status == "True"


async def test_a_webhook_that_takes_labels_off_engines_makes_none_of_them() -> None:
    operator = fresh()
    operator.kube.rewrite = without_role
    assert await played(operator) == []
    assert operator.condition("Accepted").reason == "EngineRewritten"
    assert operator.status.port_allocation.cursor == 0


async def test_a_webhook_that_renames_a_port_stops_nothing_that_serves() -> None:
    operator = await serving()
    operator.kube.rewrite = with_other_revision
    operator.change(IMAGE_2)
    assert await played(operator) == []
    assert operator.condition("Accepted").reason == "EngineRewritten"
    assert operator.condition("Ready").status == "True"


def without_role(obj: Object) -> Object:
    if obj["kind"] == "Pod":
        del obj["metadata"]["labels"]["moriio.dev/role"]
    return obj


def with_other_revision(obj: Object) -> Object:
    if obj["kind"] != "Pod":
        return obj
    changed: Object = laid_over(obj, {"metadata": {"labels": {"moriio.dev/revision": "x"}}})
    return changed


async def test_of_two_stored_router_templates_the_one_that_ran_counts() -> None:
    operator = await serving()
    (router,) = operator.kube.of_kind("Deployment")
    for policy in ("Random", "RoundRobin", "PowerOfTwo", "ConsistentHash"):
        # The template is stored, and its Deployment is refused.
        operator.kube.refuse = refuse("apply", "Deployment", INVALID)
        operator.change({"router": {"policy": policy}})
        await operator.step()
        operator.change({"router": {"policy": policy}, "decode": REFUSED})
        operator.kube.refuse = lambda _verb, _obj: None
        await operator.step()
        (now,) = operator.kube.of_kind("Deployment")
        assert now["spec"]["template"] == router["spec"]["template"]
        operator.change({"router": {"policy": "CacheAware"}, "decode": {"podTemplate": None}})
        await operator.settle()


async def test_a_crash_before_any_write_of_an_update_ends_in_the_same_engines() -> None:
    for write in range(1, 24):
        operator = Operator(MemoryKube(resource()))
        await played(operator)
        operator.change(IMAGE_2)
        operator.kube.crash_at(write, answered=True)
        with contextlib.suppress(CrashError):
            await played(operator)
        operator.kube.crash_no_more()
        await played(Operator(operator.kube))
        assert images(operator) == {"vllm:2"}
        assert len(operator.pods()) == 2


async def test_creates_that_are_refused_cost_no_port_for_good() -> None:
    operator = Operator(MemoryKube(resource()), ports=PortRange(20_000, 20_099))
    await played(operator)
    dies(operator, "llm-decode-4")
    operator.kube.refuse = refuse("create", "Pod", FORBIDDEN)
    for round_ in range(40):
        operator.time = later(5 * round_)
        await operator.step()
        operator.kubelets()
    operator.kube.refuse = lambda _verb, _obj: None
    operator.time = later(10_000)
    await operator.settle()
    assert operator.condition("Ready").status == "True"


async def test_a_child_that_a_failing_webhook_keeps_holds_no_revision_up() -> None:
    operator = await serving()
    operator.kube.refuse = refuse("delete", "Deployment", WEBHOOK)
    operator.change(IMAGE_2)
    assert await played(operator) == ["-prefill-0 -decode-4", "+prefill-8 +decode-12"]
    assert operator.condition("Accepted").reason == "ChildRefused"
    assert operator.condition("Ready").status == "True"


async def test_a_revision_that_was_accepted_and_then_is_refused_stops_nothing_that_serves() -> None:
    operator = await serving()
    operator.kube.refuse = refuse("delete", "Pod", WEBHOOK)
    operator.change(IMAGE_2)
    await operator.step()
    operator.kube.refuse = refuse("dry-run", "Pod", FORBIDDEN)
    assert await played(operator) == []
    assert len(living(operator)) == 2
    assert operator.condition("Accepted").reason == "PodForbidden"
    operator.kube.refuse = lambda _verb, _obj: None
    assert await played(operator) == ["-prefill-0 -decode-4", "+prefill-8 +decode-12"]


async def test_what_is_refused_of_the_revision_that_goes_does_not_keep_its_cure_away() -> None:
    operator = await serving()

    def old_image(verb: str, obj: Object) -> ApiError | None:
        if obj["kind"] != "Deployment" or verb not in ("apply", "create", "dry-run"):
            return None
        containers = obj["spec"]["template"]["spec"]["containers"]
        return FORBIDDEN if any(c["image"] == "router:1" for c in containers) else None

    operator.kube.refuse = old_image
    operator.change({**IMAGE_2, "router": {"image": "router:2", "replicas": 2}})
    assert await played(operator) == ["-prefill-0 -decode-4", "+prefill-8 +decode-12"]
    assert operator.condition("Accepted").status == "True"


@pytest.mark.parametrize(
    "label", ["moriio.dev/component", "moriio.dev/deployment", "app.kubernetes.io/managed-by"]
)
async def test_a_webhook_that_rewrites_any_label_that_engines_are_found_by_makes_none(
    label: str,
) -> None:
    operator = fresh()

    def rewritten(obj: Object) -> Object:
        if obj["kind"] == "Pod":
            obj["metadata"]["labels"][label] = "x"
        return obj

    operator.kube.rewrite = rewritten
    assert await played(operator) == []
    assert operator.condition("Accepted").reason == "EngineRewritten"


async def test_a_webhook_that_takes_an_engines_owner_away_makes_none() -> None:
    operator = fresh()
    operator.kube.rewrite = lambda obj: laid_over(obj, {"metadata": {"ownerReferences": []}})
    operator.kube.refuse = lambda _verb, _obj: None
    await operator.step()
    assert operator.pods() == []


async def test_the_routers_and_services_of_a_draining_revision_stay_without_its_templates() -> None:
    operator = await serving()
    operator.change(IMAGE_2)
    await operator.step()
    for template in operator.kube.of_kind("ControllerRevision"):
        if "sgntrwxt" in str(template["data"].get("revision")):
            operator.kube.remove("ControllerRevision", template["metadata"]["name"])
    await operator.step()
    assert operator.kube.one("Deployment", "llm-router-sgntrwxt")
    assert operator.kube.one("Service", "llm-decode-sgntrwxt")


async def test_the_words_of_an_end_are_cut_to_what_the_schema_takes() -> None:
    operator = await serving()
    words = "x" * 2500
    status = {**ended(1, "Error", words), "reason": "Evicted", "message": words}
    status["containerStatuses"][0]["name"] = "s" * 60
    operator.kube.put({**operator.kube.one("Pod", "llm-decode-4"), "status": status})
    assert await played(operator) == ["-decode-4 +decode-8"]


async def test_the_event_of_an_end_is_posted_though_the_pass_fails_afterwards() -> None:
    operator = await serving()
    status = ended(1, "Error", "boom")
    operator.kube.put({**operator.kube.one("Pod", "llm-decode-4"), "status": status})
    down = ApiError(503, "Unavailable", "down")
    operator.kube.refuse = refuse("create", "Pod", down)
    with pytest.raises(ApiError):
        await operator.step()
    notes = [event["note"] for event in operator.kube.of_kind("Event")]
    assert sum(note.startswith("llm-decode-4: Error") for note in notes) == 1


async def test_the_number_of_routers_of_a_refused_spec_is_not_acted_on() -> None:
    operator = await serving({"router": {"replicas": 2}})
    operator.change({"router": {"replicas": 40}, "decode": REFUSED})
    await operator.settle()
    (router,) = operator.kube.of_kind("Deployment")
    assert router["spec"]["replicas"] == 2
    assert operator.condition("RouterReady").message.startswith("2 of 2 ")

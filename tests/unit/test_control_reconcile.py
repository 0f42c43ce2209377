"""One pass after the other over an API in memory: what is written, in which order, what is told."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from moriio_operator import __version__
from moriio_operator.api.names import Role
from moriio_operator.build.children import Installation
from moriio_operator.control.knowledge import Knowledge
from moriio_operator.control.observe import observe
from moriio_operator.control.pods import HELD_RETRY_S, TAKEN_RETRY_S
from moriio_operator.control.reconcile import REFUSED_RETRY_S
from moriio_operator.kube.client import Object
from moriio_operator.kube.errors import ApiError, ConflictError, ForbiddenError, InvalidError
from moriio_operator.plan.engines import DRAIN_LOOK_S
from moriio_operator.plan.policy import Policy
from moriio_operator.plan.ports import PortRange

from unit.memory_kube import CrashError, MemoryKube
from unit.played import KEY, Operator
from unit.samples import (
    INSTALLATION,
    POLICY,
    READY,
    UID,
    UNREADY,
    Json,
    container,
    ended,
    resource,
    spec_object,
)


def fresh(change: Json | None = None, policy: Policy = POLICY) -> Operator:
    return Operator(MemoryKube(resource(change)), policy)


async def serving(change: Json | None = None) -> Operator:
    operator = fresh(change)
    await operator.settle()
    operator.kube.writes.clear()
    return operator


def refuse(
    verb: str, kind: str, error: ApiError, when: Callable[[Object], bool] = lambda _: True
) -> Callable[[str, Object], ApiError | None]:
    return lambda v, obj: error if (v, obj["kind"]) == (verb, kind) and when(obj) else None


INVALID = InvalidError(422, "Invalid", "spec.x: Invalid value")
FORBIDDEN = ForbiddenError(403, "Forbidden", "no engines on Sundays")
INSECURE = ForbiddenError(
    403, "Forbidden", 'pods "x" is forbidden: violates PodSecurity "baseline"'
)
QUOTA = ForbiddenError(403, "Forbidden", 'pods "x" is forbidden: exceeded quota: gpus')


async def test_a_new_deployment_gets_everything_in_one_pass_in_the_order_that_crashes_need() -> (
    None
):
    operator = fresh()
    await operator.step()
    writes = [write for write in operator.kube.writes if "Event" not in write]
    kinds = [" ".join(write.split()[:2]) for write in writes]
    assert kinds == [
        # The fence: a pass over a stale reading ends here.
        "apply PDDeployment",
        *["create Service"] * 3,
        "create ServiceAccount",
        "create RoleBinding",
        *["create ControllerRevision"] * 2,
        "create Deployment",
        "apply PDDeployment",
        *["create Pod"] * 2,
    ]
    assert operator.status.port_cursor == 8


async def test_an_idle_deployment_is_not_written() -> None:
    operator = await serving()
    await operator.step()
    operator.time += timedelta(hours=1)
    await operator.step()
    assert operator.kube.writes == []


async def test_a_deployment_whose_pods_are_ready_is_ready() -> None:
    operator = await serving()
    ready = operator.condition("Ready")
    assert (ready.status, ready.reason) == ("True", "Serving")
    assert operator.condition("Progressing").reason == "Settled"
    assert operator.status.summary is not None
    assert operator.status.summary.model_dump() == {
        "prefill": "1/1",
        "decode": "1/1",
        "reason": "",
    }


@pytest.mark.parametrize("gone", ["absent", "deleted"])
async def test_a_deployment_that_is_gone_is_left_to_the_garbage_collector(gone: str) -> None:
    operator = await serving()
    live = operator.kube.one("PDDeployment", "llm")
    if gone == "absent":
        operator.kube.remove("PDDeployment", "llm")
    else:
        live["metadata"]["deletionTimestamp"] = "2026-05-04T12:00:00Z"
    assert await operator.step() is None
    assert operator.kube.writes == []


async def test_a_stale_reading_creates_nothing() -> None:
    operator = fresh()
    operator.kube.refuse = refuse("apply", "PDDeployment", ConflictError(409, "Conflict", "stale"))
    with pytest.raises(ConflictError):
        await operator.step()
    assert operator.pods() == []


async def test_a_change_between_reading_and_writing_creates_nothing() -> None:
    operator = fresh()

    def meanwhile(verb: str, obj: Object) -> None:
        if (verb, obj["kind"]) == ("create", "Deployment"):
            operator.change({"engine": {"image": "vllm:2"}})

    operator.kube.refuse = meanwhile
    with pytest.raises(ConflictError):
        await operator.step()
    assert operator.pods() == []
    assert operator.status.port_cursor == 0


async def test_a_scale_up_creates_and_a_scale_down_stops_the_newest() -> None:
    operator = await serving()
    operator.change({"decode": {"replicas": 3}})
    await operator.settle()
    assert operator.pods() == ["llm-decode-12", "llm-decode-4", "llm-decode-8", "llm-prefill-0"]
    operator.change({"decode": {"replicas": 1}})
    await operator.settle()
    assert operator.pods() == ["llm-decode-4", "llm-prefill-0"]


async def test_a_change_of_the_router_alone_restarts_no_engine() -> None:
    operator = await serving()
    operator.change({"router": {"policy": "Random"}})
    await operator.settle()
    written = {write.split()[1] for write in operator.kube.writes if "Event" not in write}
    assert written == {"ControllerRevision", "Deployment", "PDDeployment"}


async def test_an_update_stops_the_old_revision_before_it_starts_the_new_one() -> None:
    operator = await serving()
    before = operator.status.revision
    operator.change({"engine": {"image": "vllm:2"}})
    await operator.step()
    assert all(pod["metadata"].get("deletionTimestamp") for pod in operator.kube.of_kind("Pod"))
    assert operator.condition("Progressing").reason == "DrainingOldRevision"
    assert "llm-decode-4, llm-prefill-0" in operator.condition("Progressing").message
    await operator.settle()
    assert operator.status.revision != before
    assert operator.pods() == ["llm-decode-12", "llm-prefill-8"]
    assert operator.condition("Ready").status == "True"


async def test_a_drain_wakes_itself_and_tells_when_it_is_stuck() -> None:
    operator = await serving()
    operator.change({"engine": {"image": "vllm:2"}})
    for _ in range(3):
        assert await operator.step() == DRAIN_LOOK_S
        assert operator.condition("Progressing").reason == "DrainingOldRevision"
        operator.time += timedelta(seconds=DRAIN_LOOK_S)
    await operator.step()
    assert operator.condition("Progressing").reason == "DrainStuck"


async def test_children_of_an_old_revision_are_pruned() -> None:
    operator = await serving()
    before = operator.status.revision or ""
    operator.change({"engine": {"image": "vllm:2"}})
    await operator.settle()
    names = [name for _, name in operator.kube.objects]
    assert not [name for name in names if before in name]
    assert sum(1 for kind, _ in operator.kube.objects if kind == "Deployment") == 1


async def test_a_refused_template_does_not_stop_a_serving_revision() -> None:
    operator = await serving()
    operator.kube.refuse = refuse("rehearse", "Pod", INVALID)
    operator.change({"decode": {"podTemplate": {"spec": {"tolerations": [{"operator": "No"}]}}}})
    assert await operator.step() == REFUSED_RETRY_S
    assert not [p for p in operator.kube.of_kind("Pod") if p["metadata"].get("deletionTimestamp")]
    accepted = operator.condition("Accepted")
    assert (accepted.status, accepted.reason) == ("False", "TemplateRefused")
    assert "the API server refuses the engine pod: spec.x: Invalid value" in accepted.message
    assert operator.condition("Ready").status == "True"


async def test_a_full_quota_does_not_keep_an_update_from_draining() -> None:
    # The old engines hold what the new ones need, and give it back when they go.
    operator = await serving()
    operator.kube.refuse = refuse(
        "rehearse", "Pod", QUOTA, lambda _: bool(operator.kube.of_kind("Pod"))
    )
    operator.change({"engine": {"image": "vllm:2"}})
    await operator.settle()
    assert operator.pods() == ["llm-decode-12", "llm-prefill-8"]


def with_quota(operator: Operator, pods: int) -> None:
    """Refuse pods beyond a quota; one that is deleted counts until it is gone."""
    operator.kube.refuse = lambda verb, obj: (
        QUOTA
        if obj["kind"] == "Pod"
        and verb in ("create", "rehearse")
        and len(operator.kube.of_kind("Pod")) >= pods
        else None
    )


async def test_engines_that_stop_give_their_quota_to_those_that_start() -> None:
    operator = await serving({"decode": {"replicas": 3}})
    with_quota(operator, 4)
    operator.change({"prefill": {"replicas": 2}, "decode": {"replicas": 2}})
    await operator.settle()
    roles = [name.split("-")[1] for name in operator.pods()]
    assert roles == ["decode", "decode", "prefill", "prefill"]
    assert operator.condition("Ready").status == "True"


async def test_an_engine_that_still_leaves_holds_its_quota_without_a_fault_of_the_spec() -> None:
    operator = await serving()
    with_quota(operator, 2)
    operator.kube.one("Pod", "llm-decode-4")["metadata"]["deletionTimestamp"] = (
        "2026-05-04T12:00:00Z"
    )
    assert await operator.step() == HELD_RETRY_S
    assert operator.condition("Accepted").status == "True"
    assert operator.status.port_cursor == 8
    await operator.settle()
    assert operator.pods() == ["llm-decode-8", "llm-prefill-0"]


async def test_a_quota_that_nobody_gives_back_is_told() -> None:
    operator = await serving()
    with_quota(operator, 2)
    operator.change({"decode": {"replicas": 2}})
    assert await operator.step() == REFUSED_RETRY_S
    assert operator.condition("Accepted").reason == "OverQuota"
    assert "exceeded quota" in operator.condition("Accepted").message


async def test_an_engine_on_a_lost_node_does_not_excuse_a_full_quota_for_ever() -> None:
    operator = await serving()
    with_quota(operator, 2)
    operator.kube.one("Pod", "llm-decode-4")["metadata"]["deletionTimestamp"] = (
        "2026-05-04T12:00:00Z"
    )
    operator.time += timedelta(seconds=60)
    assert await operator.step() == HELD_RETRY_S
    assert operator.condition("Accepted").status == "True"
    operator.time += timedelta(seconds=1)
    assert await operator.step() == REFUSED_RETRY_S
    assert operator.condition("Accepted").reason == "OverQuota"
    assert "exceeded quota" in operator.condition("Accepted").message
    assert operator.pods() == ["llm-decode-4", "llm-prefill-0"]


async def test_creates_that_are_refused_midway_are_told_by_the_next_pass() -> None:
    operator = fresh({"decode": {"replicas": 3}})
    with_quota(operator, 2)
    assert await operator.step() == HELD_RETRY_S
    assert await operator.step() == REFUSED_RETRY_S
    assert len(operator.pods()) == 2
    assert "exceeded quota" in operator.condition("Accepted").message


async def test_a_pod_that_is_forbidden_keeps_an_update_from_draining() -> None:
    operator = await serving()
    operator.kube.refuse = refuse("rehearse", "Pod", FORBIDDEN)
    operator.change({"engine": {"image": "vllm:2"}})
    await operator.step()
    assert operator.condition("Accepted").reason == "PodForbidden"
    assert operator.condition("Ready").status == "True"


async def test_a_refused_pod_costs_no_port_and_is_told() -> None:
    operator = fresh()
    operator.kube.refuse = refuse("rehearse", "Pod", FORBIDDEN)
    assert await operator.step() == REFUSED_RETRY_S
    assert (operator.pods(), operator.status.port_cursor) == ([], 0)
    assert operator.condition("Accepted").message == (
        "spec.prefill: the API server refuses the engine pod: no engines on Sundays; "
        "spec.decode: the API server refuses the engine pod: no engines on Sundays"
    )


async def test_a_namespace_that_forbids_privileged_pods_is_named_once_with_the_label() -> None:
    operator = fresh()
    operator.kube.refuse = refuse("rehearse", "Pod", INSECURE)
    assert await operator.step() == REFUSED_RETRY_S
    assert (operator.pods(), operator.status.port_cursor) == ([], 0)
    accepted = operator.condition("Accepted")
    assert accepted.reason == "PodSecurityForbids"
    assert accepted.message == (
        "spec.devices.profile: the pod-security level of namespace 'team' forbids privileged "
        'engines (pods "x" is forbidden: violates PodSecurity "baseline"): the admin labels it '
        "pod-security.kubernetes.io/enforce=privileged"
    )


@pytest.mark.parametrize("error", [INVALID, FORBIDDEN], ids=["invalid", "forbidden"])
async def test_a_refused_router_is_told_in_the_status(error: ApiError) -> None:
    operator = fresh()
    operator.kube.refuse = refuse("create", "Deployment", error)
    assert await operator.step() == HELD_RETRY_S
    accepted = operator.condition("Accepted")
    assert (accepted.status, accepted.reason) == ("False", "ChildRefused")
    assert "the API server refuses Deployment llm-router-" in accepted.message
    assert accepted.message.endswith(error.message)
    assert operator.pods() == []


def dies(operator: Operator, name: str) -> None:
    operator.kube.put({**operator.kube.one("Pod", name), "status": ended()})


def told(operator: Operator) -> tuple[str, str]:
    accepted = operator.condition("Accepted")
    return accepted.status, accepted.reason


def living(operator: Operator) -> list[str]:
    """The pods that nobody told to stop."""
    pods = operator.kube.of_kind("Pod")
    return [p["metadata"]["name"] for p in pods if not p["metadata"].get("deletionTimestamp")]


async def test_while_the_router_is_refused_what_runs_is_kept_whole() -> None:
    operator = await serving({"decode": {"replicas": 2}})
    operator.kube.refuse = refuse("apply", "Deployment", INVALID)
    dies(operator, "llm-decode-4")
    more_than_allowed = {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}
    operator.change({"router": {"resources": more_than_allowed}, "prefill": {"replicas": 2}})
    assert await operator.step() == REFUSED_RETRY_S
    assert living(operator) == ["llm-decode-16", "llm-decode-8", "llm-prefill-0", "llm-prefill-12"]
    assert told(operator) == ("False", "ChildRefused")
    assert operator.condition("Ready").status == "True"
    (decode,) = [role for role in operator.status.roles if role.name == "decode"]
    assert decode.failures == 1
    operator.change({"prefill": {"replicas": 1}, "decode": {"replicas": 1}})
    operator.kubelets()
    await operator.step()
    assert living(operator) == ["llm-decode-8", "llm-prefill-0"]
    assert told(operator) == ("False", "ChildRefused")


async def test_while_a_childs_name_is_taken_what_runs_is_kept_whole() -> None:
    operator = await serving()
    strangers = operator.kube.one("Service", "llm")
    strangers["metadata"].update(ownerReferences=[], labels={})
    dies(operator, "llm-decode-4")
    assert await operator.step() == REFUSED_RETRY_S
    assert living(operator) == ["llm-decode-8", "llm-prefill-0"]
    assert told(operator) == ("False", "NameTaken")
    assert operator.kube.one("Service", "llm") == strangers


def of_role(role: Role) -> Callable[[Object], bool]:
    return lambda obj: bool(obj["metadata"]["labels"]["moriio.dev/role"] == role)


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("error", [INVALID, FORBIDDEN, QUOTA], ids=["invalid", "forbidden", "full"])
async def test_while_one_role_is_refused_the_other_is_kept_whole(
    role: Role, error: ApiError
) -> None:
    operator = await serving()
    operator.kube.refuse = refuse("rehearse", "Pod", error, of_role(role))
    operator.change({"prefill": {"replicas": 2}, "decode": {"replicas": 2}})
    assert await operator.step() == REFUSED_RETRY_S
    other = Role.DECODE if role is Role.PREFILL else Role.PREFILL
    roles = [name.split("-")[1] for name in operator.pods()]
    assert (roles.count(role), roles.count(other)) == (1, 2)
    accepted = operator.condition("Accepted")
    assert accepted.status == "False"
    expected = f"spec.{role}: the API server refuses the engine pod: {error.message}"
    assert accepted.message == expected
    # From now on nothing but the refused role is missing: it takes no port, pass after pass.
    cursor = operator.status.port_cursor
    operator.kubelets()
    for _ in range(3):
        assert await operator.step() == REFUSED_RETRY_S
    assert (operator.status.port_cursor, len(operator.pods())) == (cursor, 3)
    # Once it is allowed it comes.
    operator.kube.refuse = lambda _verb, _obj: None
    await operator.settle()
    assert len(operator.pods()) == 4
    assert told(operator)[0] == "True"


async def test_while_a_role_is_refused_its_ended_engine_is_cleared_away_and_told() -> None:
    operator = await serving()
    operator.kube.refuse = refuse("rehearse", "Pod", INVALID, of_role(Role.DECODE))
    dies(operator, "llm-decode-4")
    assert await operator.step() == REFUSED_RETRY_S
    assert living(operator) == ["llm-prefill-0"]
    assert told(operator) == ("False", "TemplateRefused")
    assert operator.status.port_cursor == 8
    assert operator.condition("DecodeReady").reason == "EngineEnded"


@pytest.mark.parametrize("role", list(Role))
async def test_of_a_deployment_without_engines_nothing_is_made_while_one_role_is_refused(
    role: Role,
) -> None:
    operator = fresh()
    operator.kube.refuse = refuse("rehearse", "Pod", INVALID, of_role(role))
    assert await operator.step() == REFUSED_RETRY_S
    assert {kind for kind, _ in operator.kube.objects} == {"PDDeployment", "Event"}
    assert operator.status.port_cursor == 0
    assert told(operator) == ("False", "TemplateRefused")


async def test_while_the_next_revision_is_refused_no_engine_of_it_is_made() -> None:
    operator = await serving()
    operator.kube.refuse = refuse("rehearse", "Pod", INVALID)
    dies(operator, "llm-decode-4")
    operator.change({"engine": {"image": "vllm:2"}})
    assert await operator.step() == REFUSED_RETRY_S
    assert operator.pods() == ["llm-decode-4", "llm-prefill-0"]
    assert told(operator) == ("False", "TemplateRefused")


WEBHOOK = ApiError(500, "InternalError", 'failed calling webhook "x": connection refused')


async def test_a_webhook_that_does_not_answer_is_told_in_the_status() -> None:
    operator = fresh()
    operator.kube.refuse = refuse("rehearse", "Pod", WEBHOOK)
    assert await operator.step() == REFUSED_RETRY_S
    assert told(operator) == ("False", "AdmissionFailed")
    assert "failed calling webhook" in operator.condition("Accepted").message
    assert operator.pods() == []


@pytest.mark.parametrize("status", [401, 429, 501, 503, 504])
async def test_an_api_server_that_is_not_itself_fails_the_pass(status: int) -> None:
    operator = fresh()
    operator.kube.refuse = refuse("rehearse", "Pod", ApiError(status, "x", "y"))
    with pytest.raises(ApiError):
        await operator.step()
    assert operator.kube.writes == []


async def test_a_refused_spec_changes_nothing_and_what_runs_goes_on() -> None:
    operator = await serving()
    operator.change({"decode": {"replicas": 5, "podTemplate": {"spec": {"nodeName": "n1"}}}})
    assert await operator.step() == REFUSED_RETRY_S
    assert operator.pods() == ["llm-decode-4", "llm-prefill-0"]
    assert operator.condition("Accepted").reason == "TemplateRefused"
    assert operator.condition("Progressing").reason == "NotAccepted"
    assert operator.condition("Ready").status == "True"


async def test_while_a_spec_is_refused_what_ends_is_replaced_as_it_was_rendered() -> None:
    operator = await serving()
    before = operator.kube.one("Pod", "llm-decode-4")["spec"]
    dies(operator, "llm-decode-4")
    operator.change(
        {
            "engine": {"image": "vllm:2"},
            "decode": {"replicas": 5, "podTemplate": {"spec": {"nodeName": "n1"}}},
        }
    )
    assert await operator.step() == REFUSED_RETRY_S
    assert living(operator) == ["llm-decode-8", "llm-prefill-0"]
    made = operator.kube.one("Pod", "llm-decode-8")["spec"]["containers"][0]
    assert made["image"] == before["containers"][0]["image"] == "vllm:1"
    assert operator.condition("Accepted").reason == "TemplateRefused"
    assert operator.status.roles[1].desired == 1


async def test_a_child_that_may_not_be_deleted_is_told_and_keeps_nothing_waiting() -> None:
    operator = await serving()
    operator.kube.refuse = refuse(
        "delete", "Deployment", ForbiddenError(403, "Forbidden", "protected")
    )
    operator.change({"engine": {"image": "vllm:2"}})
    await operator.settle()
    assert len(operator.pods()) == 2
    assert operator.condition("Ready").status == "True"
    accepted = operator.condition("Accepted")
    assert (accepted.status, accepted.reason) == ("False", "ChildRefused")
    assert "the API server does not let go of Deployment llm-router-sgntrwxt" in accepted.message


async def test_a_webhook_that_does_not_answer_for_a_child_is_told_and_what_lives_is_healed() -> (
    None
):
    operator = await serving()
    operator.kube.remove("Service", "llm")
    operator.kube.refuse = refuse("create", "Service", WEBHOOK)
    dies(operator, "llm-decode-4")
    assert await operator.step() == REFUSED_RETRY_S
    assert told(operator) == ("False", "AdmissionFailed")
    assert living(operator) == ["llm-decode-8", "llm-prefill-0"]


async def test_while_a_revision_drains_a_refused_wish_makes_nothing_of_it_anew() -> None:
    operator = await serving()
    operator.change({"engine": {"image": "vllm:2"}})
    await operator.step()
    refused = {"podTemplate": {"spec": {"nodeName": "n1"}}, "replicas": 6}
    operator.change({"prefill": refused, "decode": refused})
    await operator.step()
    assert living(operator) == []
    assert operator.status.port_cursor == 8


async def test_what_a_tightened_policy_forbids_is_not_replaced_under_the_cloak_of_another() -> None:
    operator = await serving()
    dies(operator, "llm-decode-4")
    strict = Policy(
        privileged_namespaces=POLICY.privileged_namespaces, image_prefixes=["good", "router"]
    )
    template = {"spec": {"nodeName": "n1"}}
    operator.change({"engine": {"image": "good:1"}, "decode": {"podTemplate": template}})
    tightened = Operator(operator.kube, policy=strict)
    assert await tightened.step() == REFUSED_RETRY_S
    assert tightened.pods() == ["llm-decode-4", "llm-prefill-0"]


async def test_all_engines_that_end_while_a_spec_is_refused_come_back() -> None:
    operator = await serving()
    for name in operator.pods():
        operator.kube.remove("Pod", name)
    operator.change({"decode": {"podTemplate": {"spec": {"nodeName": "n1"}}}})
    await operator.settle()
    assert living(operator) == ["llm-decode-12", "llm-prefill-8"]
    assert operator.condition("Ready").status == "True"


async def test_children_of_what_is_kept_are_healed_as_they_were_rendered() -> None:
    operator = await serving()
    (router,) = operator.kube.of_kind("Deployment")
    for kind, name in (("Deployment", router["metadata"]["name"]), ("Service", "llm")):
        operator.kube.remove(kind, name)
    operator.change(
        {
            "engine": {"image": "vllm:2"},
            "router": {"image": "router:2"},
            "decode": {"podTemplate": {"spec": {"nodeName": "n1"}}},
        }
    )
    await operator.settle()
    (again,) = operator.kube.of_kind("Deployment")
    assert again["spec"]["template"] == router["spec"]["template"]
    assert operator.kube.one("Service", "llm")
    assert operator.condition("Ready").status == "True"


async def test_children_of_a_revision_that_drains_are_healed() -> None:
    operator = await serving()
    operator.change({"engine": {"image": "vllm:2"}})
    await operator.step()
    operator.kube.remove("Service", "llm")
    await operator.step()
    selector = operator.kube.one("Service", "llm")["spec"]["selector"]
    assert selector["moriio.dev/revision"] == "sgntrwxt"


@pytest.mark.parametrize("label", ["moriio.dev/revision", "moriio.dev/deployment"])
async def test_a_template_that_lost_a_label_is_given_it_back_and_kept_as_it_is(label: str) -> None:
    operator = await serving()
    kept = operator.kube.one("ControllerRevision", "llm-sgntrwxt")
    data = copy.deepcopy(kept["data"])
    del kept["metadata"]["labels"][label]
    for _ in range(2):
        with contextlib.suppress(ConflictError):
            await operator.step()
    assert operator.kube.one("ControllerRevision", "llm-sgntrwxt")["data"] == data
    assert label in operator.kube.one("ControllerRevision", "llm-sgntrwxt")["metadata"]["labels"]
    operator.kube.writes.clear()
    await operator.step()
    assert operator.kube.writes == []


async def test_the_resync_in_the_middle_of_a_pass_hides_nothing() -> None:
    operator = await serving()
    knowledge = Knowledge()
    reconcile = operator.reconciler(knowledge)
    await reconcile(KEY)

    class Forgetting(MemoryKube):
        async def list(self, *arguments: Any) -> tuple[list[Object], str]:
            knowledge.forget_all()
            return await operator.kube.list(*arguments)

        async def get(self, *arguments: Any) -> Object | None:
            return await operator.kube.get(*arguments)

    world = await observe(Forgetting(), knowledge, KEY)
    assert world is not None
    assert len(world.children) == 8
    await reconcile(KEY)
    assert operator.kube.writes == []


async def test_in_a_full_range_an_ended_engine_is_cleared_away_and_followed() -> None:
    operator = Operator(MemoryKube(resource()), ports=PortRange(20_000, 20_007))
    await operator.settle()
    dies(operator, "llm-decode-4")
    assert await operator.step() == HELD_RETRY_S
    assert told(operator) == ("False", "PortsExhausted")
    await operator.settle()
    assert living(operator) == ["llm-decode-12", "llm-prefill-0"]
    assert operator.condition("Accepted").status == "True"


async def test_against_the_admins_policy_nothing_is_replaced() -> None:
    operator = await serving()
    dies(operator, "llm-decode-4")
    withdrawn = Operator(operator.kube, policy=Policy())
    assert await withdrawn.step() == REFUSED_RETRY_S
    assert withdrawn.pods() == ["llm-decode-4", "llm-prefill-0"]


async def test_engines_and_routers_are_made_as_the_first_of_their_revision_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    operator = await serving()
    before = {kind: operator.kube.of_kind(kind) for kind in ("Deployment", "Pod")}
    # The next operator renders both in another way, and has another registrar.
    monkeypatch.setattr("moriio_operator.build.sealed.__version__", "9.9.9")
    monkeypatch.setattr("moriio_operator.contract.vllm.HEALTH_PATH", "/other")
    newer = Operator(operator.kube)
    newer.installation = Installation("operator:9", "ClusterRole", "moriio-registrar")
    await newer.settle()
    assert {kind: newer.kube.of_kind(kind) for kind in before} == before
    assert newer.kube.writes == []
    newer.change({"decode": {"replicas": 2}})
    await newer.settle()
    first, second = (newer.kube.one("Pod", f"llm-decode-{n}")["spec"] for n in (4, 8))
    assert first["containers"][0]["livenessProbe"] == second["containers"][0]["livenessProbe"]
    (told,) = newer.status.revisions
    assert (told.rendered_by, told.router_rendered_by) == (__version__, __version__)

    newer.change({"engine": {"image": "vllm:2"}})
    await newer.settle()
    (told,) = newer.status.revisions
    assert (told.name, told.rendered_by) == (newer.status.revision, "9.9.9")
    assert {
        pod["spec"]["containers"][0]["livenessProbe"]["httpGet"]["path"]
        for pod in newer.kube.of_kind("Pod")
    } == {"/other"}
    (router,) = newer.kube.of_kind("Deployment")
    assert router["spec"]["template"]["spec"]["initContainers"][0]["image"] == "operator:9"
    # Of the old revision nothing is kept.
    assert len(newer.kube.of_kind("ControllerRevision")) == 2


async def test_a_router_that_is_changed_is_rendered_anew_and_its_old_template_goes() -> None:
    operator = await serving()
    before = templates(operator)
    operator.change({"router": {"policy": "Random"}})
    await operator.settle()
    assert len(templates(operator)) == 2
    (kept,) = before & templates(operator)
    assert "router" not in kept


def templates(operator: Operator) -> set[str]:
    return {obj["metadata"]["name"] for obj in operator.kube.of_kind("ControllerRevision")}


@pytest.mark.parametrize("label", ["revision", "role"])
async def test_an_engine_whose_label_is_changed_is_replaced_alone(label: str) -> None:
    operator = await serving()
    pod = operator.kube.one("Pod", "llm-decode-4")
    pod["metadata"]["labels"][f"moriio.dev/{label}"] = "prefill" if label == "role" else "xxxx"
    await operator.step()
    assert living(operator) == ["llm-decode-8", "llm-prefill-0"]
    assert operator.condition("Progressing").reason == "StartingEngines"
    notes = [event["note"] for event in operator.kube.of_kind("Event")]
    assert sum(note.startswith("llm-decode-4: ") for note in notes) == 1
    await operator.settle()
    assert operator.pods() == ["llm-decode-8", "llm-prefill-0"]


@pytest.mark.parametrize("label", ["revision", "role"])
async def test_an_engine_whose_label_is_removed_is_left_alone_and_another_made(label: str) -> None:
    operator = await serving()
    del operator.kube.one("Pod", "llm-decode-4")["metadata"]["labels"][f"moriio.dev/{label}"]
    await operator.settle()
    assert operator.pods() == ["llm-decode-4", "llm-decode-8", "llm-prefill-0"]
    assert operator.status.roles[1].pods == 1


async def test_a_name_that_a_stranger_holds_is_looked_at_again_soon() -> None:
    operator = fresh()
    stranger = {"name": "llm-decode-4", "namespace": "team", "labels": {}}
    operator.kube.put({"apiVersion": "v1", "kind": "Pod", "metadata": stranger})
    assert await operator.step() == TAKEN_RETRY_S
    await operator.settle()
    assert operator.pods() == ["llm-decode-4", "llm-decode-8", "llm-prefill-0"]
    assert operator.condition("Ready").status == "True"


async def test_stops_are_fenced_too() -> None:
    # The status says it all already, so nothing of it is due: the fence alone stands before.
    operator = await serving()
    dies(operator, "llm-decode-4")
    operator.kube.refuse = refuse("delete", "Pod", ApiError(503, "Unavailable", "down"))
    await operator.step()
    operator.kube.refuse = refuse("apply", "PDDeployment", ConflictError(409, "Conflict", "stale"))
    with pytest.raises(ConflictError):
        await operator.step()
    assert "deletionTimestamp" not in operator.kube.one("Pod", "llm-decode-4")["metadata"]


async def test_a_namespace_without_leave_gets_nothing() -> None:
    operator = fresh(policy=Policy())
    assert await operator.step() == REFUSED_RETRY_S
    assert {kind for kind, _ in operator.kube.objects} == {"PDDeployment", "Event"}
    assert operator.condition("Accepted").reason == "RefusedByPolicy"


async def test_ports_that_ran_out_are_told_with_the_remedy() -> None:
    operator = fresh({"decode": {"replicas": 250}})
    await operator.step()
    accepted = operator.condition("Accepted")
    assert accepted.reason == "PortsExhausted"
    assert accepted.message == (
        "no 4 contiguous ports are free in 20000-20999, where 250 engines hold theirs: the admin "
        "widens the chart value ports"
    )


async def test_an_event_that_cannot_be_posted_does_not_stop_the_pass() -> None:
    operator = fresh()
    operator.kube.refuse = refuse("create", "Event", INVALID)
    await operator.step()
    assert operator.pods() == ["llm-decode-4", "llm-prefill-0"]


async def test_an_ended_engine_is_replaced_told_and_counted_once() -> None:
    operator = await serving()
    pod = operator.kube.one("Pod", "llm-decode-4")
    operator.kube.put({**pod, "status": ended(1, "Error", "boom")})
    await operator.step()
    assert operator.pods() == ["llm-decode-4", "llm-decode-8", "llm-prefill-0"]
    ready = operator.condition("DecodeReady")
    assert ready.reason == "EngineEnded"
    assert "llm-decode-4 ended (Error): exit code 1; its log ends: boom" in ready.message
    notes = [event["note"] for event in operator.kube.of_kind("Event")]
    assert notes.count("llm-decode-4: Error: exit code 1; its log ends: boom") == 1
    await operator.settle()
    (decode,) = [role for role in operator.status.roles if role.name == "decode"]
    assert (decode.failures, decode.last_failure) == (1, None)
    assert operator.condition("Ready").status == "True"


async def test_an_engine_whose_sidecar_ended_is_replaced() -> None:
    operator = await serving()
    over = container({"terminated": {"exitCode": 137, "reason": "OOMKilled"}}, name="log")
    status = {**UNREADY, "containerStatuses": [*UNREADY["containerStatuses"], over]}
    operator.kube.put({**operator.kube.one("Pod", "llm-decode-4"), "status": status})
    await operator.step()
    assert living(operator) == ["llm-decode-8", "llm-prefill-0"]
    ready = operator.condition("DecodeReady")
    assert ready.reason == "EngineEnded"
    assert "llm-decode-4 ended (OOMKilled): container log: exit code 137" in ready.message
    await operator.settle()
    assert operator.pods() == ["llm-decode-8", "llm-prefill-0"]
    assert operator.condition("Ready").status == "True"


async def test_engines_that_end_with_their_node_are_one_failure_and_come_back_at_once() -> None:
    operator = await serving({"decode": {"replicas": 3}})
    for serial in (4, 8, 12):
        pod = operator.kube.one("Pod", f"llm-decode-{serial}")
        pod["metadata"]["creationTimestamp"] = "2026-05-04T11:00:00Z"
        dies(operator, f"llm-decode-{serial}")
        assert await operator.step() is None
        operator.kubelets()
        operator.time += timedelta(seconds=5)
    (decode,) = [role for role in operator.status.roles if role.name == "decode"]
    assert (decode.failures, decode.ready) == (1, 2)
    assert decode.last_failure_time == "2026-05-04T12:00:00Z"
    await operator.settle()
    assert operator.condition("DecodeReady").status == "True"


async def test_a_crash_loop_waits_longer_each_time_and_asks_to_be_woken() -> None:
    operator = await serving()
    waits = []
    for _ in range(4):
        for pod in operator.kube.of_kind("Pod"):
            if pod["metadata"]["labels"]["moriio.dev/role"] == Role.DECODE:
                operator.kube.put({**pod, "status": ended()})
        waits.append(await operator.step())
        operator.kubelets()
        operator.time += timedelta(seconds=waits[-1] or 0)
        await operator.step()
    assert waits == [None, 10, 20, 40]


async def test_an_engine_that_a_user_deletes_is_replaced_without_being_counted() -> None:
    operator = await serving()
    operator.kube.one("Pod", "llm-decode-4")["metadata"]["deletionTimestamp"] = (
        "2026-05-04T12:00:00Z"
    )
    await operator.step()
    assert "llm-decode-8" in operator.pods()
    assert [role.failures for role in operator.status.roles] == [0, 0]


async def test_a_pod_that_does_not_read_as_an_engine_is_left_alone() -> None:
    operator = await serving()
    stranger = copy.deepcopy(operator.kube.one("Pod", "llm-decode-4"))
    stranger["metadata"].update(name="mine", uid="uid-of-mine")
    operator.kube.put(stranger)
    operator.change({"decode": {"replicas": 2}})
    await operator.settle()
    assert operator.pods() == ["llm-decode-4", "llm-decode-8", "llm-prefill-0", "mine"]


async def test_a_pod_with_our_labels_but_another_owner_does_not_count() -> None:
    operator = fresh()
    await operator.step()
    other = copy.deepcopy(operator.kube.one("Pod", "llm-decode-4"))
    other["metadata"]["name"] = "llm-decode-9"
    other["metadata"]["ownerReferences"][0]["uid"] = "other"
    operator.kube.put({**other, "status": READY})
    await operator.step()
    assert [engine.pod for engine in operator.status.engines] == ["llm-decode-4", "llm-prefill-0"]


async def test_an_engine_name_that_a_stranger_holds_is_stepped_over() -> None:
    stranger = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "llm-prefill-0", "namespace": "team"},
    }
    operator = Operator(MemoryKube(resource(), stranger))
    await operator.step()
    await operator.step()
    assert operator.pods() == ["llm-decode-4", "llm-prefill-0", "llm-prefill-8"]


async def test_a_service_that_a_stranger_holds_is_not_adopted() -> None:
    stranger = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "llm", "namespace": "team"},
        "spec": {"selector": {"app": "web"}},
    }
    operator = Operator(MemoryKube(resource(), stranger))
    assert await operator.step() == HELD_RETRY_S
    assert operator.kube.one("Service", "llm")["spec"] == {"selector": {"app": "web"}}
    accepted = operator.condition("Accepted")
    assert accepted.reason == "NameTaken"
    assert accepted.message == (
        "metadata.name: Service llm exists and does not belong to this PDDeployment: delete it, or "
        "give the PDDeployment another name"
    )


async def test_an_heirloom_of_the_same_name_is_waited_for() -> None:
    # Deleted and made again at once: the garbage collector has not come round yet.
    operator = await serving()
    again = resource()
    again["metadata"]["uid"] = "uid-of-the-second"
    operator.kube.put(again)
    assert await operator.step() == HELD_RETRY_S
    assert operator.condition("Accepted").message == (
        "metadata.name: Service llm is still there from an earlier PDDeployment of this name: wait"
    )
    for kind, name in list(operator.kube.objects):
        if kind not in ("PDDeployment", "Pod", "Event"):
            operator.kube.remove(kind, name)
    await operator.settle()
    assert operator.condition("Ready").status == "True"


async def test_a_foreign_edit_of_a_child_is_undone() -> None:
    operator = await serving()
    service = operator.kube.one("Service", "llm")
    service["spec"]["selector"]["extra"] = "x"
    await operator.step()
    assert operator.kube.writes == ["apply Service llm"]
    assert "extra" not in operator.kube.one("Service", "llm")["spec"]["selector"]


async def test_a_child_that_vanished_comes_back() -> None:
    operator = await serving()
    operator.kube.remove("Service", "llm")
    await operator.step()
    assert operator.kube.writes == ["create Service llm"]


async def test_a_child_of_ours_that_lost_its_labels_is_taken_back() -> None:
    operator = await serving()
    operator.kube.one("Service", "llm")["metadata"]["labels"] = {}
    await operator.step()
    assert operator.kube.writes == ["apply Service llm"]
    assert operator.condition("Accepted").status == "True"


def immutable_role_refs(operator: Operator) -> Callable[[str, Object], ApiError | None]:
    """Refuse to apply another roleRef over a live one, as the API server does."""

    def refusal(verb: str, obj: Object) -> ApiError | None:
        live = operator.kube.objects.get((obj["kind"], obj["metadata"].get("name", "")))
        if verb != "apply" or live is None or live.get("roleRef") == obj.get("roleRef"):
            return None
        return InvalidError(422, "Invalid", "roleRef: cannot change roleRef")

    return refusal


async def test_a_binding_to_the_role_of_another_release_is_made_anew() -> None:
    # helm uninstall, and install under another name: roleRef is immutable.
    operator = await serving()
    (binding,) = operator.kube.of_kind("RoleBinding")
    name, uid = binding["metadata"]["name"], binding["metadata"]["uid"]
    wish = dict(binding["roleRef"])
    binding["roleRef"]["name"] = "other-registrar"
    operator.kube.refuse = immutable_role_refs(operator)
    await operator.step()
    assert operator.kube.writes == [f"delete RoleBinding {name}", f"create RoleBinding {name}"]
    (made,) = operator.kube.of_kind("RoleBinding")
    assert made["roleRef"] == wish
    assert made["metadata"]["uid"] != uid
    assert operator.condition("Accepted").status == "True"


async def test_a_binding_that_is_edited_elsewhere_is_mended_in_place() -> None:
    operator = await serving()
    (binding,) = operator.kube.of_kind("RoleBinding")
    name = binding["metadata"]["name"]
    binding["subjects"] = []
    await operator.step()
    assert operator.kube.writes == [f"apply RoleBinding {name}"]


@pytest.mark.parametrize("answered", [True, False], ids=["before", "after"])
async def test_a_crash_between_a_bindings_end_and_its_return_is_made_good(
    *, answered: bool
) -> None:
    operator = await serving()
    (binding,) = operator.kube.of_kind("RoleBinding")
    binding["roleRef"]["name"] = "other-registrar"
    operator.kube.refuse = immutable_role_refs(operator)
    operator.kube.crash_at(2, answered=answered)
    with pytest.raises(CrashError):
        await operator.step()
    await operator.settle()
    (made,) = operator.kube.of_kind("RoleBinding")
    assert made["roleRef"]["name"] == INSTALLATION.registrar_role


async def test_an_object_of_another_schema_is_told_and_tried_again() -> None:
    operator = await serving()
    operator.kube.one("PDDeployment", "llm")["spec"] = {"model": {}}
    assert await operator.step() == REFUSED_RETRY_S
    assert operator.kube.writes == []


async def test_a_status_that_is_lost_is_made_anew_and_no_living_block_is_given_out_again() -> None:
    operator = await serving()
    del operator.kube.one("PDDeployment", "llm")["status"]
    operator.change({"decode": {"replicas": 2}})
    # It is taken for a new one, until a name is met that one of its own holds.
    with pytest.raises(ConflictError):
        await operator.step()
    await operator.settle()
    assert operator.pods() == ["llm-decode-4", "llm-decode-8", "llm-prefill-0"]
    assert operator.status.port_cursor == 12
    assert operator.condition("Ready").status == "True"


async def test_a_status_of_another_version_keeps_its_cursor_and_is_written_anew() -> None:
    operator = await serving()
    status = operator.kube.one("PDDeployment", "llm")["status"]
    status["engines"][0]["state"] = "Levitating"
    status["portCursor"] = 100
    operator.change({"decode": {"replicas": 2}})
    await operator.settle()
    assert operator.pods() == ["llm-decode-100", "llm-decode-4", "llm-prefill-0"]
    assert operator.status.port_cursor == 104
    assert {engine.state for engine in operator.status.engines} == {"Ready"}


@pytest.mark.parametrize("answered", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("write", range(1, 14))
async def test_a_crash_at_any_write_of_the_first_pass_leaves_no_double(
    write: int, *, answered: bool
) -> None:
    operator = fresh({"decode": {"replicas": 2}})
    operator.kube.crash_at(write, answered=answered)
    with pytest.raises(CrashError):
        await operator.settle()
    await operator.settle()
    assert operator.condition("Ready").status == "True"
    roles = [name.split("-")[1] for name in operator.pods()]
    assert roles == ["decode", "decode", "prefill"]
    serials = [int(name.rsplit("-", 1)[1]) for name in operator.pods()]
    assert operator.status.port_cursor > max(serials)


def test_the_samples_are_what_the_api_server_would_store() -> None:
    made = resource()
    assert made["metadata"]["uid"] == UID
    assert made["spec"].items() >= {"model": spec_object()["model"]}.items()


async def test_an_engine_that_ends_without_a_word_is_told_by_the_end_of_its_log() -> None:
    operator = await serving()
    pod = operator.kube.one("Pod", "llm-decode-4")
    operator.kube.put({**pod, "status": ended(0, "Completed")})
    lines = [f"line {number}" for number in range(100)]
    operator.kube.logs["team", "llm-decode-4", "engine"] = "\n".join([*lines, "EngineDeadError"])
    await operator.step()
    message = operator.condition("DecodeReady").message
    assert "exit code 0; its log ends: line 81" in message
    assert "EngineDeadError" in message


async def test_a_log_that_cannot_be_read_does_not_keep_an_engine_from_its_successor() -> None:
    operator = await serving()
    pod = operator.kube.one("Pod", "llm-decode-4")
    operator.kube.put({**pod, "status": ended(0, "Completed")})
    await operator.settle()
    assert [name for name in operator.pods() if "decode" in name] == ["llm-decode-8"]


async def test_an_engine_that_cannot_be_stopped_does_not_keep_others_from_being_made() -> None:
    operator = await serving()
    operator.kube.refuse = refuse("delete", "Pod", FORBIDDEN)
    pod = operator.kube.one("Pod", "llm-decode-4")
    operator.kube.put({**pod, "status": ended()})
    assert await operator.step() == HELD_RETRY_S
    assert "llm-decode-8" in operator.pods()

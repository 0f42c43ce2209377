"""What is refused is told, costs nothing, and leaves what runs whole."""

from __future__ import annotations

import pytest
from moriio_operator.admission.policy import Policy
from moriio_operator.api.ports import PortRange
from moriio_operator.control.engine_pods import HELD_RETRY_S
from moriio_operator.control.reconcile import REFUSED_RETRY_S
from moriio_operator.facts.terms import Role
from moriio_operator.kube.errors import ApiError

from unit.memory_kube import MemoryKube
from unit.passes import (
    FORBIDDEN,
    INSECURE,
    INVALID,
    QUOTA,
    WEBHOOK,
    dies,
    fresh,
    living,
    of_role,
    refuse,
    serving,
    told,
)
from unit.played import Operator
from unit.samples import (
    resource,
)


async def test_a_refused_template_does_not_stop_a_serving_revision() -> None:
    operator = await serving()
    operator.kube.refuse = refuse("dry-run", "Pod", INVALID)
    operator.change({"decode": {"podTemplate": {"spec": {"tolerations": [{"operator": "No"}]}}}})
    assert await operator.step() == REFUSED_RETRY_S
    assert not [p for p in operator.kube.of_kind("Pod") if p["metadata"].get("deletionTimestamp")]
    accepted = operator.condition("Accepted")
    assert (accepted.status, accepted.reason) == ("False", "TemplateRefused")
    assert "the API server refuses the engine pod: spec.x: Invalid value" in accepted.message
    assert operator.condition("Ready").status == "True"


async def test_a_pod_that_is_forbidden_keeps_an_update_from_draining() -> None:
    operator = await serving()
    operator.kube.refuse = refuse("dry-run", "Pod", FORBIDDEN)
    operator.change({"engine": {"image": "vllm:2"}})
    await operator.step()
    assert operator.condition("Accepted").reason == "PodForbidden"
    assert operator.condition("Ready").status == "True"


async def test_a_refused_pod_costs_no_port_and_is_told() -> None:
    operator = fresh()
    operator.kube.refuse = refuse("dry-run", "Pod", FORBIDDEN)
    assert await operator.step() == REFUSED_RETRY_S
    assert (operator.pods(), operator.status.port_allocation.cursor) == ([], 0)
    assert operator.condition("Accepted").message == (
        "spec.prefill: the API server refuses the engine pod: no engines on Sundays; "
        "spec.decode: the API server refuses the engine pod: no engines on Sundays"
    )


async def test_a_namespace_that_forbids_privileged_pods_is_named_once_with_the_label() -> None:
    operator = fresh()
    operator.kube.refuse = refuse("dry-run", "Pod", INSECURE)
    assert await operator.step() == REFUSED_RETRY_S
    assert (operator.pods(), operator.status.port_allocation.cursor) == ([], 0)
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


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("error", [INVALID, FORBIDDEN, QUOTA], ids=["invalid", "forbidden", "full"])
async def test_while_one_role_is_refused_the_other_is_kept_whole(
    role: Role, error: ApiError
) -> None:
    operator = await serving()
    operator.kube.refuse = refuse("dry-run", "Pod", error, of_role(role))
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
    cursor = operator.status.port_allocation.cursor
    operator.kubelets()
    for _ in range(3):
        assert await operator.step() == REFUSED_RETRY_S
    assert (operator.status.port_allocation.cursor, len(operator.pods())) == (cursor, 3)
    # Once it is allowed it comes.
    operator.kube.refuse = lambda _verb, _obj: None
    await operator.settle()
    assert len(operator.pods()) == 4
    assert told(operator)[0] == "True"


async def test_while_a_role_is_refused_its_ended_engine_is_cleared_away_and_told() -> None:
    operator = await serving()
    operator.kube.refuse = refuse("dry-run", "Pod", INVALID, of_role(Role.DECODE))
    dies(operator, "llm-decode-4")
    assert await operator.step() == REFUSED_RETRY_S
    assert living(operator) == ["llm-prefill-0"]
    assert told(operator) == ("False", "TemplateRefused")
    assert operator.status.port_allocation.cursor == 8
    assert operator.condition("DecodeReady").reason == "EngineEnded"


@pytest.mark.parametrize("role", list(Role))
async def test_of_a_deployment_without_engines_nothing_is_made_while_one_role_is_refused(
    role: Role,
) -> None:
    operator = fresh()
    operator.kube.refuse = refuse("dry-run", "Pod", INVALID, of_role(role))
    assert await operator.step() == REFUSED_RETRY_S
    assert {kind for kind, _ in operator.kube.objects} == {"PDDeployment", "Event"}
    assert operator.status.port_allocation.cursor == 0
    assert told(operator) == ("False", "TemplateRefused")


async def test_while_the_next_revision_is_refused_no_engine_of_it_is_made() -> None:
    operator = await serving()
    operator.kube.refuse = refuse("dry-run", "Pod", INVALID)
    dies(operator, "llm-decode-4")
    operator.change({"engine": {"image": "vllm:2"}})
    assert await operator.step() == REFUSED_RETRY_S
    assert operator.pods() == ["llm-decode-4", "llm-prefill-0"]
    assert told(operator) == ("False", "TemplateRefused")


async def test_a_webhook_that_does_not_answer_is_told_in_the_status() -> None:
    operator = fresh()
    operator.kube.refuse = refuse("dry-run", "Pod", WEBHOOK)
    assert await operator.step() == REFUSED_RETRY_S
    assert told(operator) == ("False", "AdmissionFailed")
    assert "failed calling webhook" in operator.condition("Accepted").message
    assert operator.pods() == []


@pytest.mark.parametrize("status", [401, 429, 501, 503, 504])
async def test_an_api_server_that_is_not_itself_fails_the_pass(status: int) -> None:
    operator = fresh()
    operator.kube.refuse = refuse("dry-run", "Pod", ApiError(status, "x", "y"))
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


async def test_a_namespace_without_leave_gets_nothing() -> None:
    operator = fresh(policy=Policy())
    assert await operator.step() == REFUSED_RETRY_S
    assert {kind for kind, _ in operator.kube.objects} == {"PDDeployment", "Event"}
    assert operator.condition("Accepted").reason == "RefusedByPolicy"


async def test_ports_that_ran_out_are_told_with_the_remedy() -> None:
    operator = fresh({"decode": {"replicas": 250}})
    await operator.step()
    assert operator.condition("Accepted").status == "True"
    allocated = operator.condition("PortsAllocated")
    assert (allocated.status, allocated.reason) == ("False", "PortsExhausted")
    assert allocated.message == (
        "250 of 251 engines have ports: no 4 contiguous ports are free in 20000-20999: of its "
        "1000 ports 1000 are held by engines, or known to engines that live; the admin widens the "
        "chart value ports"
    )


async def test_in_a_full_range_a_block_comes_back_only_when_nobody_lives_who_knows_it() -> None:
    operator = Operator(MemoryKube(resource()), ports=PortRange(20_000, 20_007))
    await operator.settle()
    dies(operator, "llm-decode-4")
    assert await operator.step() == HELD_RETRY_S
    assert operator.condition("PortsAllocated").reason == "PortsExhausted"
    await operator.settle()
    # Its block stays back: the prefill engine knows it and would never shake hands again.
    assert living(operator) == ["llm-prefill-0"]
    allocated = operator.condition("PortsAllocated")
    assert (allocated.status, allocated.reason) == ("False", "PortsExhausted")
    assert operator.condition("Ready").status == "False"
    dies(operator, "llm-prefill-0")
    await operator.settle()
    assert len(living(operator)) == 2
    assert operator.condition("PortsAllocated").status == "True"

"""While a spec is refused what ran is kept whole, as it was rendered, not against the admin."""

from __future__ import annotations

import pytest
from moriio_operator import __version__
from moriio_operator.admission.policy import Policy
from moriio_operator.build.children import Installation
from moriio_operator.control.reconcile import REFUSED_RETRY_S

from unit.memory_kube import MemoryKube
from unit.passes import (
    dies,
    living,
    serving,
)
from unit.played import Operator
from unit.samples import (
    POLICY,
    resource,
)


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


async def test_while_a_revision_drains_a_refused_wish_makes_nothing_of_it_anew() -> None:
    operator = await serving()
    operator.change({"engine": {"image": "vllm:2"}})
    await operator.step()
    refused = {"podTemplate": {"spec": {"nodeName": "n1"}}, "replicas": 6}
    operator.change({"prefill": refused, "decode": refused})
    await operator.step()
    assert living(operator) == []
    assert operator.status.port_allocation.cursor == 8


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


async def test_a_router_whose_image_is_forbidden_by_now_is_not_made_again() -> None:
    operator = await serving()
    (router,) = operator.kube.of_kind("Deployment")
    operator.kube.remove("Deployment", router["metadata"]["name"])
    strict = Policy(
        privileged_namespaces=POLICY.privileged_namespaces, image_prefixes=["vllm", "good"]
    )
    tightened = Operator(operator.kube, policy=strict)
    for image in ("router:1", "good:1"):
        template = {"spec": {"nodeName": "n1"}}
        tightened.change({"router": {"image": image}, "decode": {"podTemplate": template}})
        await tightened.step()
        assert tightened.kube.of_kind("Deployment") == []


async def test_a_wish_that_the_policy_forbids_costs_nothing_of_what_it_allows() -> None:
    strict = Policy(
        privileged_namespaces=POLICY.privileged_namespaces, image_prefixes=["vllm", "router"]
    )
    operator = Operator(MemoryKube(resource()), policy=strict)
    await operator.settle()
    dies(operator, "llm-decode-4")
    operator.change({"engine": {"image": "evil:1"}})
    assert await operator.step() == REFUSED_RETRY_S
    assert living(operator) == ["llm-decode-8", "llm-prefill-0"]
    assert operator.condition("Accepted").reason == "RefusedByPolicy"
    made = operator.kube.one("Pod", "llm-decode-8")["spec"]["containers"][0]
    assert made["image"] == "vllm:1"


async def test_a_router_that_was_changed_since_is_judged_as_it_was_changed() -> None:
    operator = await serving()
    operator.change({"router": {"image": "late:1"}})
    await operator.settle()
    (router,) = operator.kube.of_kind("Deployment")
    operator.kube.remove("Deployment", router["metadata"]["name"])
    operator.change({"decode": {"podTemplate": {"spec": {"nodeName": "n1"}}}})
    for prefixes, routers in ((["vllm", "router"], 0), (["vllm", "late"], 1)):
        strict = Policy(privileged_namespaces=POLICY.privileged_namespaces, image_prefixes=prefixes)
        await Operator(operator.kube, policy=strict).step()
        assert len(operator.kube.of_kind("Deployment")) == routers


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
    monkeypatch.setattr("moriio_operator.build.revision_template.__version__", "9.9.9")
    monkeypatch.setattr("moriio_operator.stack.vllm_moriio.command_line.HEALTH_PATH", "/other")
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

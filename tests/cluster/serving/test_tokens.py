"""Real engines over two nodes: tokens, the proof that the KV cache crossed, loss and repair.

The tests of a mode share one deployment and stand in the order of its life: they build it up,
break it, and last delete it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest
from bed.cluster import Bed
from bed.command import wait_until
from stage import audit
from stage.deployments import stub, tiny
from stage.installation import RESYNC_S
from stage.inventory import inventory
from stage.service import Service, blocks
from stage.traffic import PROMPTS, Answer, PromptTokens, complete, prompt_tokens, router_address

pytestmark = [pytest.mark.parts("service"), pytest.mark.load(2)]

REPAIRED_S = 180


@pytest.fixture(scope="module", params=["Read", "Write"])
def service(
    request: pytest.FixtureRequest, operator: Bed, new_namespace: Callable[[], str]
) -> Service:
    """One prefill and one decode engine, on different nodes, serving."""
    name = new_namespace()
    made = Service.apply(operator, tiny(name, "pd", request.param))
    made.wait_settled()
    return made


@pytest.fixture
def namespace(service: Service) -> str:
    """The namespace that a failing test reports on."""
    return service.namespace


@pytest.mark.usefixtures("namespace")
def test_what_the_engines_report_of_the_model_is_what_was_stated(service: Service) -> None:
    checked = service.wait_condition("ContractChecked", timeout_s=60)
    assert checked["message"] == "checked against the rules of vLLM 0.32.0"


@pytest.mark.usefixtures("namespace")
def test_the_router_pod_reports_what_it_asked_of_each_engine(service: Service) -> None:
    uids = sorted(pod["metadata"]["uid"] for pod in service.pods())
    router = service.router_pod()["metadata"]

    def reported() -> list[str]:
        return [engine["podUID"] for report in service.reports() for engine in report["engines"]]

    service.wait("a report on both engines", lambda: reported() == uids, 60)
    (report,) = service.reports()
    (owner,) = report["metadata"]["ownerReferences"]
    assert report["metadata"]["name"] == router["name"]
    assert (owner["kind"], owner["uid"]) == ("Pod", router["uid"])
    for engine in report["engines"]:
        assert (engine["version"], engine["attention"]) == ("0.32.0", "GQA")


@pytest.mark.usefixtures("namespace")
def test_a_fact_that_the_engines_report_otherwise_is_named(service: Service) -> None:
    before = {pod["metadata"]["uid"] for pod in service.pods()}
    service.patch(model={"config": {"attention": "MLA"}})
    told = service.wait_condition("ContractChecked", "False", "FactsDiffer", 60)
    assert told["message"] == (
        "spec.model.config.attention is stated as MLA, and the engine reports GQA: correct it"
    )
    assert service.condition("Ready")["status"] == "True"
    service.patch(model={"config": {"attention": "GQA"}})
    service.wait_condition("ContractChecked", timeout_s=60)
    assert {pod["metadata"]["uid"] for pod in service.pods()} == before, "facts change no engine"


def ask(service: Service) -> tuple[list[Answer], PromptTokens]:
    """Send all prompts; give the answers and what the decode engines counted meanwhile."""
    decodes = service.pods("decode")
    before = [prompt_tokens(pod) for pod in decodes]
    address = router_address(service)
    answers = [complete(address, prompt) for prompt in PROMPTS]
    gained = [prompt_tokens(pod) - was for pod, was in zip(decodes, before, strict=True)]
    return answers, PromptTokens.summed(gained)


def assert_crossed(answers: list[Answer], tokens: PromptTokens) -> None:
    """At most one prompt token a request was computed by decode, all others came over."""
    assert tokens.local_compute <= len(answers)
    assert tokens.all == sum(answer.prompt_tokens for answer in answers)


@pytest.mark.usefixtures("namespace")
def test_prefill_and_decode_run_on_different_nodes(service: Service) -> None:
    (prefill,), (decode,) = service.pods("prefill"), service.pods("decode")
    assert prefill["spec"]["nodeName"] != decode["spec"]["nodeName"]


@pytest.mark.usefixtures("namespace")
def test_tokens_are_those_of_the_model_served_alone(
    service: Service, expected: list[Answer]
) -> None:
    answers, tokens = ask(service)
    assert [a.text for a in answers] == [e.text for e in expected]
    assert_crossed(answers, tokens)


@pytest.mark.usefixtures("namespace")
def test_a_corrupted_wire_changes_the_tokens_and_nothing_else(
    service: Service, expected: list[Answer]
) -> None:
    set_fault(service, {"fault": "corrupt"})
    try:
        answers, tokens = ask(service)
    finally:
        set_fault(service, {})
    assert [answer.status for answer in answers] == [200] * len(PROMPTS)
    assert_crossed(answers, tokens)
    equal = sum(a.text == e.text for a, e in zip(answers, expected, strict=True))
    assert equal <= 2


def set_fault(service: Service, fault: dict[str, str]) -> None:
    """Switch the stand-in's fault in every engine of the service."""
    for pod in service.pods():
        write = f"echo '{json.dumps(fault)}' > /tmp/mori-faults.json"
        where = ("exec", pod["metadata"]["name"], "-c", "engine", "--")
        service.bed.kubectl("-n", service.namespace, *where, "sh", "-c", write)


@pytest.mark.usefixtures("namespace")
def test_the_client_service_answers_by_name_from_another_pod(
    service: Service, expected: list[Answer]
) -> None:
    endpoint = service.status()["endpoint"]
    body = {"model": "tiny", "prompt": PROMPTS[0], "max_tokens": 24, "temperature": 0}
    program = (
        "import json, urllib.request as u;"
        f"r = u.Request('{endpoint}/v1/completions', json.dumps({{**{body}, 'ignore_eos': True}})"
        ".encode(), {'Content-Type': 'application/json'});"
        "print(json.load(u.urlopen(r, timeout=30))['choices'][0]['text'], end='')"
    )
    bed, name = service.bed, "client"
    run = ("run", name, "--image=localhost/moriio/base:dev", "--restart=Never", "--command", "--")
    bed.kubectl("-n", service.namespace, *run, "python3", "-c", program)
    get = ("-n", service.namespace, "get", "pod", name)

    def ended() -> bool:
        return bed.kubectl_json(*get)["status"]["phase"] in ("Succeeded", "Failed")

    wait_until(ended, timeout_s=60, what="the client pod to end", every_s=0.3)
    assert bed.kubectl("-n", service.namespace, "logs", name) == expected[0].text
    bed.kubectl("-n", service.namespace, "delete", "pod", name)


@pytest.mark.usefixtures("namespace")
def test_a_second_decode_engine_shares_the_work(service: Service) -> None:
    before = {pod["metadata"]["name"] for pod in service.pods()}
    service.patch(decode={"replicas": 2})
    service.wait_settled()
    after = service.pods("decode")
    names = {pod["metadata"]["name"] for pod in service.pods()}
    assert before < names, "scaling must not touch the engines that run"

    counted = [prompt_tokens(pod) for pod in after]

    def both_work() -> bool:
        address = router_address(service)
        assert all(complete(address, prompt).status == 200 for prompt in PROMPTS[:4])
        gained = [prompt_tokens(pod) - was for pod, was in zip(after, counted, strict=True)]
        return len(gained) == 2 and all(g.external_kv_transfer > 0 for g in gained)

    # The router learns of a ready engine by the registrar's next beat.
    wait_until(both_work, timeout_s=30, what="both decode engines to receive tokens")


@pytest.mark.usefixtures("namespace")
def test_scaling_down_leaves_one_decode_engine_that_serves(service: Service) -> None:
    oldest = min(service.pods("decode"), key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
    service.patch(decode={"replicas": 1})
    service.wait("one decode engine to be left", lambda: len(service.pods("decode")) == 1)
    (left,) = service.pods("decode")
    assert left["metadata"]["uid"] == oldest["metadata"]["uid"]
    assert complete(router_address(service), PROMPTS[0]).status == 200


@pytest.mark.usefixtures("namespace")
def test_a_settled_deployment_is_never_written(service: Service) -> None:
    service.wait_settled()
    # The status that says so may itself be answered just now; after it there is nothing to say.
    version = service.object()["metadata"]["resourceVersion"]
    began = audit.now()

    def two_resyncs() -> bool:
        lists = [
            call
            for call in audit.calls(service.bed.audit_log, since=began)
            if call.user == audit.OPERATOR_USER
            and (call.verb, call.resource, call.name) == ("list", "pddeployments", "")
        ]
        return len(lists) >= 3

    wait_until(two_resyncs, timeout_s=60, what="three resyncs", every_s=1)
    written = [
        call
        for call in audit.calls(service.bed.audit_log, since=began)
        if (call.user, call.namespace) == (audit.OPERATOR_USER, service.namespace) and call.writes
    ]
    assert written == []
    assert service.object()["metadata"]["resourceVersion"] == version


@pytest.mark.usefixtures("namespace")
def test_a_killed_decode_engine_is_replaced_at_other_ports(
    service: Service, expected: list[Answer]
) -> None:
    (victim,) = service.pods("decode")
    used = blocks(service.pods())
    # All blocks of all engines that ever were lie below the cursor.
    cursor = service.status()["portAllocation"]["cursor"]
    began = time.monotonic()
    service.bed.kill_process(service.namespace, victim["metadata"]["name"], "engine")

    def successor() -> bool:
        pods = service.pods("decode")
        return [pod["metadata"]["uid"] for pod in pods] != [victim["metadata"]["uid"]] and bool(
            pods
        )

    service.wait("a new decode engine", successor, timeout_s=60)
    service.wait_settled(REPAIRED_S)

    def answers() -> bool:
        return complete(router_address(service), PROMPTS[0]).text == expected[0].text

    service.wait("the service to answer again", answers, timeout_s=REPAIRED_S)
    assert time.monotonic() - began < REPAIRED_S
    (new,) = service.pods("decode")
    assert new["metadata"]["name"] != victim["metadata"]["name"]
    (block,) = blocks([new])
    assert not any(set(block) & set(old) for old in used)
    assert block.start >= min(used, key=lambda b: b.start).start + cursor


def settled_inventory(bed: Bed, namespace: str) -> dict[str, str]:
    """Read the inventory once nothing in it has changed for two resyncs of the operator."""
    last, since = inventory(bed, namespace), time.monotonic()

    def still() -> bool:
        nonlocal last, since
        now = inventory(bed, namespace)
        if now != last:
            last, since = now, time.monotonic()
        return time.monotonic() - since > 2 * RESYNC_S

    wait_until(still, timeout_s=90, what=f"{namespace} to come to rest", every_s=1)
    return last


@pytest.mark.usefixtures("namespace")
def test_deleting_it_leaves_nothing_and_touches_nothing_else(service: Service) -> None:
    bed, where = service.bed, service.namespace
    neighbour = Service.apply(bed, stub(where, "neighbour"))
    neighbour.wait_settled()
    everything = settled_inventory(bed, where)
    own = {key for key in everything if key.split("/")[1].startswith("pd")}
    others = {key: version for key, version in everything.items() if key not in own}
    assert {key.split("/")[0] for key in own} >= {"Pod", "Service", "Deployment", "PDDeployment"}

    service.delete()
    wait_until(
        lambda: not (inventory(bed, where).keys() & own),
        timeout_s=120,
        what="everything of the deployment to go",
        every_s=1,
    )
    assert inventory(bed, where) == others

"""An engine read from its pod: what it is from what nobody can edit, how it is from its status."""

from __future__ import annotations

from typing import Any

import pytest
from moriio_operator.api.ports import PortBlock
from moriio_operator.api.status import EngineState
from moriio_operator.facts.terms import ROLES, Role
from moriio_operator.observe.engine import Engine, from_pod
from moriio_operator.observe.failure import Failure
from moriio_operator.stack.vllm_moriio.ports import layout

from unit.samples import (
    NOW,
    PENDING,
    READY,
    REVISION,
    STARTING,
    UNREADY,
    Json,
    container,
    ended,
    laid_over,
    later,
    owner,
    pod,
)


def read(status: Json | None = None, **kwargs: Any) -> Engine:
    engine = from_pod(pod(status=status, **kwargs))
    assert engine is not None
    return engine


def waiting(reason: str, message: str = "words", *, name: str = "engine") -> Json:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"phase": "Pending", "containerStatuses": [container(state, name=name)]}


def deleted(made: Json) -> Json:
    made["metadata"]["deletionTimestamp"] = "2026-05-04T12:00:00Z"
    return made


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("ranks", [1, 2, 16])
def test_what_was_built_is_read_back(role: Role, ranks: int) -> None:
    engine = read(serial=44, role=role, ranks=ranks)
    assert (engine.pod, engine.role, engine.serial) == (f"llm-{role}-44", role, 44)
    assert engine.ports == PortBlock(20_044, len(layout(ranks)))
    assert (engine.revision, engine.uid) == (REVISION, f"uid-of-llm-{role}-44")


@pytest.mark.parametrize("name", ["llm", "prefill", "a-decode-7", "x-prefill"])
def test_the_name_of_the_deployment_may_look_like_an_engines(name: str) -> None:
    engine = read(serial=3, role=Role.DECODE, whose=owner(name=name))
    assert (engine.role, engine.serial) == (Role.DECODE, 3)


def test_node_and_address_are_told_when_known() -> None:
    made = pod(status=READY)
    made["spec"]["nodeName"] = "n1"
    engine = from_pod(made)
    assert engine is not None
    assert (engine.node, engine.address) == ("n1", "198.18.1.7")
    assert (read().node, read().address) == (None, None)


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ({}, EngineState.PENDING),
        (PENDING, EngineState.PENDING),
        (waiting("ContainerCreating"), EngineState.PENDING),
        (STARTING, EngineState.STARTING),
        (READY, EngineState.READY),
        (UNREADY, EngineState.UNREADY),
        (ended(), EngineState.ENDED),
        (ended(0, "Completed"), EngineState.ENDED),
        ({"phase": "Failed", "reason": "Evicted"}, EngineState.ENDED),
        ({"phase": "Succeeded"}, EngineState.ENDED),
        # A sidecar keeps the phase at Running.
        ({**ended(), "phase": "Running"}, EngineState.ENDED),
    ],
)
def test_states(status: Json, state: EngineState) -> None:
    assert read(status).state is state


@pytest.mark.parametrize("status", [PENDING, READY, ended()])
def test_a_deleted_pod_is_terminating_whatever_else_it_is(status: Json) -> None:
    engine = from_pod(deleted(pod(status=status)))
    assert engine is not None
    assert engine.state is EngineState.TERMINATING
    assert engine.is_leaving


@pytest.mark.parametrize(
    "change",
    [
        {"labels": None},
        {"labels": {"moriio.dev/revision": None}},
        {"name": "llm-prefill"},
        {"name": "llm-prefill-x"},
        {"name": "llm-prefill--"},
        {"name": "llm-other-3"},
        {"name": "3"},
    ],
)
def test_a_pod_that_does_not_read_as_an_engine_is_left_alone(change: Json) -> None:
    assert from_pod(laid_over(pod(), {"metadata": change})) is None


@pytest.mark.parametrize(
    "containers",
    [
        [],
        [{"name": "other"}],
        [{"name": "engine"}],
        [{"name": "engine", "ports": []}],
        [{"name": "engine", "ports": [{"containerPort": 1}]}],
        [{"name": "engine", "ports": [{"name": "http", "containerPort": 1}]}],
    ],
)
def test_a_pod_without_our_ports_is_left_alone(containers: list[Json]) -> None:
    assert from_pod(laid_over(pod(), {"spec": {"containers": containers}})) is None


@pytest.mark.parametrize(
    "metadata",
    [
        {"annotations": None},
        {"annotations": {"moriio.dev/ports": None}},
        {"annotations": {"moriio.dev/ports": "x"}},
        {"annotations": {"moriio.dev/ports": "20003-20000"}},
        # Of another pod, of a part of its block, and of more than it has.
        {"annotations": {"moriio.dev/ports": "20400-20403"}},
        {"annotations": {"moriio.dev/ports": "20001-20002"}},
        {"annotations": {"moriio.dev/ports": "20000-20009"}},
        {"labels": {"team": "a"}},
    ],
)
def test_edited_annotations_and_foreign_labels_change_nothing(metadata: Json) -> None:
    assert from_pod(laid_over(pod(), {"metadata": metadata})) == read()


def renamed(made: Json) -> Json:
    """The pod as an engine and connector with other names for its ports would have it."""
    for number, port in enumerate(made["spec"]["containers"][0]["ports"]):
        port["name"] = f"port-{number}"
    return made


def test_the_names_of_its_ports_do_not_matter() -> None:
    assert from_pod(renamed(pod())) == read()


@pytest.mark.parametrize("ports", [None, "x", "20400-20403", "20000-20009"])
def test_ports_that_neither_the_annotation_nor_their_names_tell_are_not_ours(
    ports: str | None,
) -> None:
    edit = {"metadata": {"annotations": {"moriio.dev/ports": ports}}}
    assert from_pod(laid_over(renamed(pod()), edit)) is None


@pytest.mark.parametrize("added", [19_990, 20_900])
def test_a_port_that_a_webhook_added_is_not_of_the_block(added: int) -> None:
    made = pod()
    made["spec"]["containers"][0]["ports"].insert(0, {"name": "more", "containerPort": added})
    assert from_pod(made) == read()
    made["metadata"]["annotations"] = {}
    assert from_pod(made) == read()


@pytest.mark.parametrize("label", ["moriio.dev/role", "moriio.dev/revision"])
def test_without_one_of_its_labels_an_engine_is_taken_aside(label: str) -> None:
    bare = pod()
    del bare["metadata"]["labels"][label]
    assert from_pod(bare) is None


def test_an_engine_that_was_given_another_role_has_to_go() -> None:
    edit = {"metadata": {"labels": {"moriio.dev/role": "decode"}}}
    engine = from_pod(laid_over(pod(status=READY), edit))
    assert engine is not None
    assert (engine.role, engine.state, engine.silent_container) == (
        Role.PREFILL,
        EngineState.ENDED,
        None,
    )
    assert engine.failure == Failure(
        "Relabelled",
        "somebody changed its label moriio.dev/role to 'decode': it is replaced",
    )


def test_one_that_leaves_anyway_is_waited_for_whatever_its_labels() -> None:
    edit = {"metadata": {"labels": {"moriio.dev/role": "decode"}}}
    engine = from_pod(deleted(laid_over(pod(status=READY), edit)))
    assert engine is not None
    assert engine.state is EngineState.TERMINATING


def test_a_port_that_a_webhook_added_changes_nothing() -> None:
    made = pod()
    made["spec"]["containers"][0]["ports"].append({"name": "mesh", "containerPort": 15_090})
    assert from_pod(made) == read()


@pytest.mark.parametrize("status", [STARTING, READY, PENDING, waiting("ContainerCreating")])
def test_an_engine_on_its_way_has_no_trouble(status: Json) -> None:
    assert read(status).failure is None


@pytest.mark.parametrize(
    "reason", ["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "CreateContainerConfigError"]
)
def test_a_container_that_cannot_start_tells_why(reason: str) -> None:
    assert read(waiting(reason, "no such image")).failure == Failure(reason, "no such image")


def test_a_pod_that_no_node_takes_tells_why() -> None:
    scheduled = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/2 nodes are available: 2 Insufficient amd.com/gpu.",
    }
    assert read({"phase": "Pending", "conditions": [scheduled]}).failure == Failure(
        "Unschedulable", "0/2 nodes are available: 2 Insufficient amd.com/gpu."
    )


def test_a_sidecar_that_cannot_start_is_named() -> None:
    stuck = waiting("ImagePullBackOff", "no such image", name="log")["containerStatuses"]
    status = {**UNREADY, "containerStatuses": UNREADY["containerStatuses"] + stuck}
    assert read(status).failure == Failure("ImagePullBackOff", "container log: no such image")


def test_a_sidecar_that_ended_ends_its_engine_since_the_pod_is_never_ready_again() -> None:
    over = container({"terminated": {"exitCode": 3, "message": "lost"}}, name="log")
    status = {**UNREADY, "containerStatuses": [*UNREADY["containerStatuses"], over]}
    engine = read(status)
    assert engine.state is EngineState.ENDED
    words = "container log: exit code 3; its log ends: lost"
    assert engine.failure == Failure("Error", words)


@pytest.mark.parametrize(
    ("status", "failure"),
    [
        (ended(1, "Error", "boom\n"), Failure("Error", "exit code 1; its log ends: boom")),
        (ended(137, "OOMKilled"), Failure("OOMKilled", "exit code 137")),
        (ended(0, "Completed"), Failure("Completed", "exit code 0")),
        (ended(1, ""), Failure("Error", "exit code 1")),
        (
            {"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."},
            Failure("Evicted", "The node was low on memory."),
        ),
        ({"phase": "Failed"}, Failure("Ended", "")),
    ],
)
def test_an_end_tells_exit_code_and_last_words(status: Json, failure: Failure) -> None:
    assert read(status).failure == failure


def test_an_eviction_is_told_as_such() -> None:
    status = {
        **ended(137, "Error", "last words"),
        "reason": "Evicted",
        "message": "The node was low on resource: memory.",
    }
    failure = read(status).failure
    assert failure is not None
    assert failure.reason == "Evicted"
    assert failure.message.startswith("The node was low on resource: memory.")
    assert failure.message.endswith("exit code 137; its log ends: last words")


def test_of_a_long_log_the_end_is_kept() -> None:
    failure = read(ended(message="x" * 4000 + "the cause")).failure
    assert failure is not None
    assert failure.message.endswith("xxxthe cause")
    assert "its log ends: ..." in failure.message
    assert len(failure.message) < 2100


def test_when_it_was_made_and_when_its_grace_ends_are_read() -> None:
    made = deleted(pod())
    made["metadata"]["creationTimestamp"] = "2026-05-04T11:59:00Z"
    engine = from_pod(made)
    assert engine is not None
    assert (engine.created, engine.deletion_deadline) == (later(-60), NOW)
    assert (read().created, read().deletion_deadline) == (None, None)


@pytest.mark.parametrize(("passed_s", "late"), [(-30, False), (60, False), (61, True)])
def test_one_that_stops_is_waited_for_until_its_kubelet_is_late(
    passed_s: int, *, late: bool
) -> None:
    engine = from_pod(deleted(pod(status=READY)))
    assert engine is not None
    now = later(passed_s)
    assert (engine.exceeds_grace(now), engine.within_grace(now)) == (late, not late)


def test_one_that_does_not_stop_is_neither_late_nor_waited_for() -> None:
    engine = read(READY)
    assert not engine.exceeds_grace(later(10**6))
    assert not engine.within_grace(NOW)


def test_of_two_ended_containers_the_engine_is_told() -> None:
    log = container({"terminated": {"exitCode": 3}}, name="log")
    status = {**ended(1, "Error", "boom"), "phase": "Running"}
    status["containerStatuses"] = [log, *status["containerStatuses"]]
    assert read(status).failure == Failure("Error", "exit code 1; its log ends: boom")


NO_PORTS = "0/2 nodes are available: 2 node(s) didn't have free ports for the requested pod ports."


def unscheduled(message: str) -> Json:
    told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {"phase": "Pending", "conditions": [{**told, "message": message}]}


def test_an_engine_whose_ports_are_held_everywhere_waits_in_vain_and_has_to_go() -> None:
    engine = read(unscheduled(NO_PORTS))
    assert (engine.state, engine.failed) == (EngineState.ENDED, True)
    assert engine.failure == Failure("HostPortTaken", NO_PORTS)
    assert engine.silent_container is None


def test_one_that_waits_for_something_else_waits() -> None:
    engine = read(unscheduled("0/2 nodes are available: 2 Insufficient amd.com/gpu."))
    assert engine.state is EngineState.PENDING


def test_a_kubelet_that_refuses_ports_is_told_like_a_scheduler_that_does() -> None:
    message = "Predicate NodePorts failed: node(s) didn't have free ports"
    engine = read({"phase": "Failed", "reason": "NodePorts", "message": message})
    assert engine.failure == Failure("HostPortTaken", message)


def init(code: int, message: str = "", *, name: str = "preflight") -> Json:
    end = {"exitCode": code, "reason": "Error" if code else "Completed", "message": message}
    return {"name": name, "state": {"terminated": end}}


def test_an_init_container_that_failed_ends_the_engine_and_is_named() -> None:
    said = "Address already in use: another process of this node listens on port 20002"
    engine = read({"phase": "Failed", "initContainerStatuses": [init(98, said)]})
    assert engine.state is EngineState.ENDED
    assert engine.failure is not None
    assert engine.failure.reason == "PortInUse"
    assert "container preflight: exit code 98" in engine.failure.message
    assert said in engine.failure.message


def test_a_native_sidecar_that_comes_back_ends_nothing() -> None:
    status = {**READY, "initContainerStatuses": [init(1, "crashed", name="istio-proxy")]}
    assert read(status).state is EngineState.READY


def test_what_a_users_sidecar_says_on_its_way_out_is_not_vllms() -> None:
    end = {"exitCode": 1, "reason": "Error", "message": "bind: Address already in use"}
    failure = read(
        {"phase": "Failed", "containerStatuses": [container({"terminated": end}, name="log")]}
    ).failure
    assert failure is not None
    assert failure.reason == "Error"


def test_a_port_that_a_webhooks_container_takes_from_the_node_is_not_the_blocks() -> None:
    made = pod(status=unscheduled(NO_PORTS))
    made["spec"]["containers"].append({"name": "agent", "ports": [{"hostPort": 9100}]})
    engine = from_pod(made)
    assert engine is not None
    assert engine.state is EngineState.PENDING
    assert engine.failure == Failure("Unschedulable", NO_PORTS)


def test_one_that_did_its_work_ends_nothing() -> None:
    assert read({**READY, "initContainerStatuses": [init(0)]}).state is EngineState.READY


def test_an_init_container_that_cannot_start_is_named() -> None:
    state = {"waiting": {"reason": "ImagePullBackOff", "message": "words"}}
    status = {
        "phase": "Pending",
        "initContainerStatuses": [container(state, name="preflight")],
        "containerStatuses": [container({"waiting": {"reason": "PodInitializing"}})],
    }
    assert read(status).failure == Failure("ImagePullBackOff", "container preflight: words")


def test_an_address_that_mori_cannot_bind_is_told() -> None:
    engine = read({**STARTING, "podIP": "fd00::7"})
    assert engine.failure is not None
    assert engine.failure.reason == "AddressNotIPv4"
    assert "fd00::7" in engine.failure.message


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("zmq.error.ZMQError: Address already in use (addr='tcp://*:20002')", "PortInUse"),
        ("some words that nobody knows", "Error"),
    ],
)
def test_last_words_that_are_known_give_the_reason_and_its_remedy(log: str, reason: str) -> None:
    failure = read(ended(1, "Error", log)).failure
    assert failure is not None
    assert failure.reason == reason
    assert failure.message.endswith(f"its log ends: {log}")


def test_a_reason_of_kubernetes_own_is_not_guessed_over() -> None:
    failure = read(ended(137, "OOMKilled", "Address already in use")).failure
    assert failure is not None
    assert failure.reason == "OOMKilled"


def test_whether_it_is_on_the_host_network_is_read() -> None:
    made = pod()
    made["spec"]["hostNetwork"] = True
    engine = from_pod(made)
    assert engine is not None
    assert engine.host_network
    assert not read().host_network

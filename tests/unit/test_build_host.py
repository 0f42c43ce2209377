"""Engine pods that share the node's namespaces: every port is declared, and tried before."""

from __future__ import annotations

import pytest
from moriio_operator.facts.terms import ROLES, Role
from moriio_operator.stack.vllm_moriio.ports import layout

from unit.samples import HOST, IMAGE, REVISION, Json, engine_pod, owner

XGMI: Json = {"connector": {"backend": "XGMI"}}


def built(change: Json | None = None, role: Role = Role.DECODE) -> Json:
    return engine_pod(owner(change, base=HOST), f"llm-{role}-40", role, REVISION, 20_140)


def engine(pod: Json) -> Json:
    [found] = [c for c in pod["spec"]["containers"] if c["name"] == "engine"]
    return dict(found)


def test_it_is_on_the_nodes_network_and_still_finds_names_of_the_cluster() -> None:
    spec = built()["spec"]
    assert (spec["hostNetwork"], spec["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")


@pytest.mark.parametrize("role", ROLES)
def test_every_port_of_the_block_is_the_nodes_and_told_to_the_scheduler(role: Role) -> None:
    ranks = owner(base=HOST).spec.role(role).parallelism.ranks
    ports = engine(built(role=role))["ports"]
    assert [p["name"] for p in ports] == list(layout(ranks))
    assert [p["hostPort"] for p in ports] == [p["containerPort"] for p in ports]
    assert [p["containerPort"] for p in ports] == list(range(20_140, 20_140 + 2 + 2 * ranks))


def test_each_of_them_is_tried_before_the_engine_starts() -> None:
    pod = built()
    [preflight] = pod["spec"]["initContainers"]
    assert (preflight["name"], preflight["image"]) == ("preflight", IMAGE)
    assert preflight["args"][0] == "preflight"
    words = preflight["args"][1:]
    assert words[::2] == ["--port"] * (len(words) // 2)
    assert words[1::2] == [str(port["containerPort"]) for port in engine(pod)["ports"]]


def test_what_tries_them_has_no_rights() -> None:
    [preflight] = built()["spec"]["initContainers"]
    context = preflight["securityContext"]
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert not context["allowPrivilegeEscalation"]


def test_on_the_pod_network_nothing_of_the_node_is_shared() -> None:
    change = {"network": {"mode": "Pod"}, "devices": {"fabric": "InfiniBand"}}
    spec = built(change)["spec"]
    assert not {"hostNetwork", "hostIPC", "hostPID", "initContainers", "dnsPolicy"} & spec.keys()
    assert all("hostPort" not in port for port in engine({"spec": spec})["ports"])


def test_over_rdma_neither_memory_nor_processes_are_shared() -> None:
    assert not {"hostIPC", "hostPID", "affinity"} & built()["spec"].keys()


def test_xgmi_keeps_all_engines_of_a_revision_on_one_node_and_shares_memory_there() -> None:
    spec = built(XGMI)["spec"]
    assert (spec["hostIPC"], spec["hostPID"]) == (True, True)
    affinity = spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    [term] = affinity
    labels = built(XGMI)["metadata"]["labels"]
    assert term["labelSelector"]["matchLabels"].items() <= labels.items()
    assert (
        term["labelSelector"]["matchLabels"].items()
        <= built(XGMI, Role.PREFILL)["metadata"]["labels"].items()
    )
    assert term["topologyKey"] == "kubernetes.io/hostname"


def test_a_data_parallel_engine_says_so_to_vllm_and_to_the_router() -> None:
    arguments = engine(built())["args"]
    assert arguments[arguments.index("--data-parallel-size") + 1] == "4"
    assert "--enable-expert-parallel" in arguments

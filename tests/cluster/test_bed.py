"""The bed itself: how it comes up, goes down, survives being killed, and what its nodes are like.

The first part brings up beds of its own, in processes that the tests kill; the second part uses the
bed of the test run.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from bed.cache import REPO
from bed.claim import Claim, state_folder
from bed.cluster import Bed
from bed.command import wait_until
from bed.config import BedConfig
from bed.controlplane import NODE_SILENCE_S
from bed.errors import BedError
from bed.processes import members_named
from bed.sweep import Inventory, inventory, sweep

UP_PROMISE_S = 20
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(REPO / "tests")}
HOLD_A_BED = """
import sys
from bed.cluster import Bed
with Bed.up():
    print("up", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def before() -> Inventory:
    claim = Claim(state_folder())
    try:
        claim.refuse_standing_bed()
        sweep(claim.state)
    finally:
        claim.release()
    return inventory(state_folder())


class Holder:
    """A process that holds a bed, as a test run does."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLD_A_BED],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=ENVIRONMENT,
        )

    def wait_until_up(self) -> float:
        began = time.monotonic()
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"up\n"
        return time.monotonic() - began

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def holder(before: Inventory) -> Iterator[Holder]:
    assert not before.processes
    holding = Holder()
    yield holding
    holding.kill()
    command_line("down")


def command_line(*words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "bed", *words]
    return subprocess.run(argv, capture_output=True, text=True, check=False, env=ENVIRONMENT)


@pytest.mark.own_bed
def test_a_warm_bed_is_up_within_twice_the_promised_time(holder: Holder) -> None:
    assert holder.wait_until_up() < 2 * UP_PROMISE_S


@pytest.mark.own_bed
def test_a_second_bed_is_refused_with_the_remedy(holder: Holder) -> None:
    with pytest.raises(BedError, match=rf"held by process {holder.process.pid} .*make bed-down"):
        Bed.up()


@pytest.mark.own_bed
def test_a_bed_is_not_taken_down_under_its_living_owner(holder: Holder) -> None:
    refused = command_line("down")
    assert refused.returncode == 1
    assert f"held by process {holder.process.pid}" in refused.stderr
    assert members_named(state_folder(), "apiserver")


@pytest.mark.own_bed
def test_up_after_a_kill_clears_the_wreckage_and_works(holder: Holder, before: Inventory) -> None:
    holder.kill()
    wreckage = inventory(state_folder())
    assert wreckage.processes
    assert wreckage.namespaces
    assert wreckage.links
    assert wreckage.cgroups
    assert wreckage.routes
    with Bed.up(BedConfig(nodes=1)) as bed:
        assert [node["metadata"]["name"] for node in bed.kubectl_json("get", "nodes")["items"]] == [
            "node0"
        ]
    assert inventory(state_folder()) == before


@pytest.mark.own_bed
def test_down_after_a_kill_in_the_midst_of_coming_up_leaves_nothing(before: Inventory) -> None:
    half_way = Holder()
    state = state_folder()
    wait_until(
        lambda: bool(members_named(state, "node0-containerd")), timeout_s=40, what="a first node"
    )
    half_way.kill()
    assert inventory(state) != before
    assert command_line("down").returncode == 0
    assert inventory(state) == before


@pytest.mark.own_bed
def test_a_bed_of_the_command_line_stays_until_it_is_taken_down(before: Inventory) -> None:
    up = command_line("up", "--nodes", "1", "--no-devices", "--policy", "none")
    assert up.returncode == 0, up.stderr
    try:
        with pytest.raises(BedError, match=r"a bed is already up .*make bed-down"):
            Bed.up()
        bed = Bed.attached()
        assert bed.node_names == ["node0"]
        devices = bed.node_exec("node0", "find", "/dev", "-type", "c").split()
        assert "/dev/null" in devices
        assert not {"/dev/kfd", "/dev/dri/renderD128", "/dev/infiniband/uverbs0"} & {*devices}
        assert not members_named(state_folder(), "node0-kube-router")
    finally:
        down = command_line("down")
    assert down.returncode == 0, down.stderr
    assert inventory(state_folder()) == before


# --- on the bed of the test run ---


def pod(name: str, node: str, *, privileged: bool = False, **labels: str) -> dict[str, Any]:
    container = {
        "name": "web",
        "image": "localhost/moriio/base:dev",
        "imagePullPolicy": "Never",
        "command": ["python3", "-m", "http.server", "8000"],
        "securityContext": {"privileged": privileged},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"name": name, **labels}},
        "spec": {
            "nodeName": node,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
        },
    }


def apply(bed: Bed, namespace: str, *objects: dict[str, Any]) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": objects}
    bed.kubectl("-n", namespace, "apply", "-f", "-", input=json.dumps(listed))
    pods = [f"pod/{each['metadata']['name']}" for each in objects if each["kind"] == "Pod"]
    if pods:
        ready = ("wait", "--for=condition=Ready", "--timeout=60s")
        bed.kubectl("-n", namespace, *ready, *pods)


def reaches(bed: Bed, namespace: str, pod_name: str, host: str, port: int) -> bool:
    connect = f"import socket; socket.create_connection(({host!r}, {port}), 2)"
    try:
        bed.kubectl("-n", namespace, "exec", pod_name, "--", "python3", "-c", connect)
    except BedError:
        return False
    return True


def comes_to_reach(bed: Bed, namespace: str, client: str, host: str, port: int) -> None:
    """Wait for an answer: a pod is Ready before its program listens."""
    wait_until(
        lambda: reaches(bed, namespace, client, host, port),
        timeout_s=20,
        what=f"{client} to reach {host}",
    )


def node_is_ready(bed: Bed, node: str) -> bool:
    conditions = bed.kubectl_json("get", "node", node)["status"]["conditions"]
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def silence_s(bed: Bed, node: str) -> float:
    lease = bed.kubectl_json("-n", "kube-node-lease", "get", "lease", node)
    heard = datetime.fromisoformat(lease["spec"]["renewTime"])
    return (datetime.now(UTC) - heard).total_seconds()


def test_no_route_leads_out_of_a_node(bed: Bed) -> None:
    for node in bed.node_names:
        routes = json.loads(bed.node_exec(node, "ip", "-json", "route", "show", "table", "all"))
        targets = [route["dst"] for route in routes]
        assert "default" not in targets
        outside = [dst for dst in targets if not dst.startswith(("198.18.", "198.19.", "127."))]
        assert [dst for dst in outside if ":" not in dst] == []


def test_policies_let_friends_in_and_refuse_strangers_of_both_nodes(
    bed: Bed, namespace: str
) -> None:
    server = pod("server", "node0")
    friend = pod("friend", "node1", friend="yes")
    strangers = [pod("near", "node0"), pod("far", "node1")]
    apply(bed, namespace, server, friend, *strangers)
    address = bed.kubectl_json("-n", namespace, "get", "pod", "server")["status"]["podIP"]
    clients = ("friend", "near", "far")
    for client in clients:
        comes_to_reach(bed, namespace, client, address, 8000)
    policy = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "friends"},
        "spec": {
            "podSelector": {"matchLabels": {"name": "server"}},
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": {"matchLabels": {"friend": "yes"}}}]}],
        },
    }
    apply(bed, namespace, policy)
    for stranger in ("near", "far"):
        wait_until(
            lambda who=stranger: not reaches(bed, namespace, who, address, 8000),  # type: ignore[misc]
            timeout_s=20,
            what=f"the policy to refuse {stranger}",
        )
    comes_to_reach(bed, namespace, "friend", address, 8000)


def test_a_service_is_found_by_its_name_from_another_node(bed: Bed, namespace: str) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": {"name": "server"}, "ports": [{"port": 80, "targetPort": 8000}]},
    }
    apply(bed, namespace, pod("server", "node0"), pod("client", "node1"), service)
    name = f"web.{namespace}.svc.cluster.local"
    for each in (name, "web"):
        comes_to_reach(bed, namespace, "client", each, 80)
    assert not reaches(bed, namespace, "client", f"other.{namespace}.svc.cluster.local", 80)


def test_only_a_privileged_pod_sees_the_stand_in_devices(bed: Bed, namespace: str) -> None:
    assert bed.config.devices is not None
    apply(bed, namespace, pod("plain", "node0"), pod("privileged", "node0", privileged=True))
    seen = {
        name: set(bed.kubectl("-n", namespace, "exec", name, "--", "find", "/dev").split())
        for name in ("plain", "privileged")
    }
    devices = set(bed.config.devices.paths())
    assert devices <= seen["privileged"]
    assert not devices & seen["plain"]


def test_a_killed_process_ends_its_pod(bed: Bed, namespace: str) -> None:
    apply(bed, namespace, pod("victim", "node1"), pod("other", "node1"))
    bed.kill_process(namespace, "victim", "web")
    bed.kubectl(
        *("-n", namespace, "wait", "pod/victim", "--timeout=20s"),
        "--for=jsonpath={.status.containerStatuses[0].state.terminated.exitCode}=137",
    )
    other = bed.kubectl_json("-n", namespace, "get", "pod", "other")
    assert other["status"]["phase"] == "Running"


def test_the_audit_log_tells_who_wrote_what(bed: Bed, namespace: str) -> None:
    bed.kubectl("-n", namespace, "create", "configmap", "proof")
    # What follows the last line's end is still being written.
    events = [json.loads(line) for line in bed.audit_log.read_text().split("\n")[:-1]]
    writes = [
        (event["user"]["username"], event["verb"])
        for event in events
        if event.get("objectRef", {}).get("namespace") == namespace
        and event["objectRef"].get("name") == "proof"
    ]
    assert writes == [("bed-admin", "create")]


def test_a_failing_tests_report_shows_pods_events_and_logs(bed: Bed, namespace: str) -> None:
    broken = pod("broken", "node0")
    broken["spec"]["containers"][0]["image"] = "localhost/moriio/absent:dev"
    bed.kubectl("-n", namespace, "apply", "-f", "-", input=json.dumps(broken))
    talker = pod("talker", "node0")
    talker["spec"]["containers"][0]["command"] = ["echo", "last words"]
    bed.kubectl("-n", namespace, "apply", "-f", "-", input=json.dumps(talker))

    def is_told() -> bool:
        told = bed.diagnostics(namespace)
        return "ErrImageNeverPull" in told and "last words" in told

    what = "the report to show why one pod does not run and what the other said"
    wait_until(is_told, timeout_s=20, what=what, every_s=0.5)


@pytest.mark.alone
def test_a_killed_node_becomes_not_ready_and_comes_back(bed: Bed, namespace: str) -> None:
    apply(bed, namespace, pod("lost", "node1"), pod("kept", "node0"))
    bed.kill_node("node1")
    wait_until(
        lambda: not node_is_ready(bed, "node1"),
        timeout_s=2 * NODE_SILENCE_S,
        what="the dead node to be noticed",
        every_s=0.5,
    )
    wait_until(
        # Read more than once: the machine may have stood still just before.
        lambda: silence_s(bed, "node0") < NODE_SILENCE_S / 2,
        timeout_s=5,
        what="the living node, which may have lost its way too",
    )
    bed.start_node("node1")
    wait_until(lambda: node_is_ready(bed, "node1"), timeout_s=40, what="the node to come back")
    apply(bed, namespace, pod("next", "node1"))

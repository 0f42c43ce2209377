"""What can be broken in the bed is truly broken, nothing else is, and it is well again after."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from bed import addresses
from bed.claim import state_folder
from bed.cluster import Bed
from bed.command import wait_until
from bed.errors import BedError
from bed.processes import members_named
from bed.sweep import inventory

pytestmark = pytest.mark.alone

# A kubelet speaks every 2 s; this long a silence is no hiccup, and short of what loses the node.
SILENCE_S = 7
SERVE = ["python3", "-m", "http.server", "8000"]
# Echoes what it is sent, over one connection after another.
ECHO = """
import socket
listener = socket.create_server(("", 8000))
while True:
    connection, _ = listener.accept()
    while data := connection.recv(1):
        connection.sendall(data)
"""
# Speaks over one connection as long as it lives, and tells how it fares.
SPEAK = """
import socket, sys, time
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))
connection.settimeout(2)
while True:
    connection.sendall(b".")
    while True:
        try:
            print("answered" if connection.recv(1) else "closed", flush=True)
            break
        except TimeoutError:
            print("silence", flush=True)
    time.sleep(0.1)
"""
# Tries anew again and again, and tells how each try ended.
KNOCK = """
import socket, sys, time
while True:
    try:
        socket.create_connection((sys.argv[1], int(sys.argv[2])), 2).close()
        print("reached", flush=True)
    except OSError as error:
        print(type(error).__name__, flush=True)
    time.sleep(0.1)
"""


@pytest.fixture
def breakable(bed: Bed) -> Iterator[Bed]:
    """Give the run's bed, and see to it that it is well after."""
    yield bed
    bed.restore_links()
    wait_until(lambda: is_well(bed), timeout_s=60, what="the nodes to be well again", every_s=0.5)


def is_well(bed: Bed) -> bool:
    nodes = bed.kubectl_json("get", "nodes")["items"]
    ready = [c["status"] for n in nodes for c in n["status"]["conditions"] if c["type"] == "Ready"]
    fresh = all(silence_s(bed, node) < SILENCE_S / 2 for node in bed.node_names)
    return fresh and ready == ["True"] * len(bed.node_names)


def silence_s(bed: Bed, node: str) -> float:
    lease = bed.kubectl_json("-n", "kube-node-lease", "get", "lease", node)
    heard = datetime.fromisoformat(lease["spec"]["renewTime"])
    return (datetime.now(UTC) - heard).total_seconds()


def pod(name: str, node: str, *command: str) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "localhost/moriio/base:dev",
        "imagePullPolicy": "Never",
        "command": command,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "nodeName": node,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
        },
    }


def run_pods(bed: Bed, namespace: str, *pods: dict[str, Any]) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": pods}
    bed.kubectl("-n", namespace, "apply", "-f", "-", input=json.dumps(listed))
    names = [f"pod/{each['metadata']['name']}" for each in pods]
    bed.kubectl("-n", namespace, "wait", "--for=condition=Ready", "--timeout=60s", *names)


def address(bed: Bed, namespace: str, pod_name: str) -> str:
    found = bed.kubectl_json("-n", namespace, "get", "pod", pod_name)
    return str(found["status"]["podIP"])


def said(bed: Bed, node: str, namespace: str, pod_name: str) -> list[str]:
    """Read what a pod said from its node's files, as the API server may be out of reach."""
    lines = bed.node_exec(node, "bash", "-c", f"cat /var/log/pods/{namespace}_{pod_name}_*/main/*")
    return [line.split()[-1] for line in lines.splitlines()]


def await_word(bed: Bed, node: str, namespace: str, pod_name: str, word: str) -> None:
    def is_last() -> bool:
        return said(bed, node, namespace, pod_name)[-1:] == [word]

    wait_until(is_last, timeout_s=30, what=f"{pod_name} to say {word!r}", every_s=0.2)


def processes(bed: Bed, node: str, argument: str) -> list[str]:
    """Give the states of a node's processes that have an argument, as `ps` writes them."""
    lines = bed.node_exec(node, "ps", "-eo", "state=,args=").splitlines()
    return [line.split()[0] for line in lines if argument in line.split()]


def test_a_cut_link_is_silent_for_old_and_new_connections_of_both_sides(
    breakable: Bed, namespace: str
) -> None:
    bed = breakable
    echo = ("python3", "-c", ECHO)
    run_pods(bed, namespace, pod("echo0", "node0", *echo), pod("web0", "node0", *SERVE))
    web, echo0 = (address(bed, namespace, name) for name in ("web0", "echo0"))
    speaker = pod("speaker", "node1", "python3", "-c", SPEAK, echo0, "8000")
    knocker = pod("knocker", "node1", "python3", "-c", KNOCK, web, "8000")
    run_pods(bed, namespace, speaker, knocker, pod("web1", "node1", *SERVE))
    web1 = address(bed, namespace, "web1")
    back = pod("back", "node0", "python3", "-c", KNOCK, web1, "8000")
    near = pod("near", "node0", "python3", "-c", KNOCK, web, "8000")
    run_pods(bed, namespace, back, near)
    await_word(bed, "node1", namespace, "speaker", "answered")
    for node, who in (("node1", "knocker"), ("node0", "back")):
        await_word(bed, node, namespace, who, "reached")
    with bed.cut_link("node0", "node1"):
        await_word(bed, "node1", namespace, "speaker", "silence")
        for node, who in (("node1", "knocker"), ("node0", "back")):
            await_word(bed, node, namespace, who, "TimeoutError")
        what = "the nodes to be heard by the API server, which is not cut off"
        wait_until(lambda: is_well(bed), timeout_s=30, what=what, every_s=0.5)
    for node, who in (("node1", "knocker"), ("node0", "back")):
        await_word(bed, node, namespace, who, "reached")
    await_word(bed, "node1", namespace, "speaker", "answered")
    # Within a node nothing was cut, and nobody was told anything: no reset, no refusal.
    assert {*said(bed, "node0", namespace, "near")} == {"reached"}
    assert {*said(bed, "node1", namespace, "speaker")} == {"answered", "silence"}
    assert {*said(bed, "node1", namespace, "knocker")} == {"reached", "TimeoutError"}


def test_a_node_that_is_cut_from_the_api_server_still_reaches_all_else(
    breakable: Bed, namespace: str
) -> None:
    bed = breakable
    run_pods(bed, namespace, pod("web0", "node0", *SERVE))
    targets = {
        "api": (addresses.API_SERVICE_IP, 443),
        "dns": (addresses.BRIDGE_IP, addresses.DNS_PORT),
        "web": (address(bed, namespace, "web0"), 8000),
    }
    knock = ("python3", "-c", KNOCK)
    for name, (host, port) in targets.items():
        run_pods(bed, namespace, pod(name, "node1", *knock, host, str(port)))
        await_word(bed, "node1", namespace, name, "reached")
    other = pod("other", "node0", *knock, addresses.API_SERVICE_IP, "443")
    run_pods(bed, namespace, other)
    bed.cut_from_api("node1")
    await_word(bed, "node1", namespace, "api", "TimeoutError")
    # The kubelet's connection is an old one.
    what = "the kubelet of node1 to be heard no more"
    wait_until(lambda: silence_s(bed, "node1") > SILENCE_S, timeout_s=30, what=what, every_s=0.5)
    what = "the kubelet of node0, which is cut from nothing, to be heard"
    wait_until(lambda: silence_s(bed, "node0") < SILENCE_S, timeout_s=5, what=what)
    bed.restore_links()
    await_word(bed, "node1", namespace, "api", "reached")
    wait_until(lambda: is_well(bed), timeout_s=60, what="node1 to be heard again", every_s=0.5)
    for node, name in (("node1", "dns"), ("node1", "web"), ("node0", "other")):
        assert {*said(bed, node, namespace, name)} == {"reached"}


def test_overlapping_cuts_are_mended_one_by_one(breakable: Bed) -> None:
    bed = breakable

    def cuts(node: str) -> int:
        return bed.node_exec(node, "nft", "list", "ruleset").count('iifname "eth0"')

    with bed.cut_link("node0", "node1"):
        with bed.cut_link("node1", "node0"):
            assert cuts("node0") == cuts("node1") == 2
        assert cuts("node0") == cuts("node1") == 1
    assert cuts("node0") == cuts("node1") == 0
    with pytest.raises(BedError, match="two different nodes"):
        bed.cut_link("node0", "node0")


def test_a_killed_node_comes_back_behind_its_cut(breakable: Bed) -> None:
    bed = breakable
    with bed.cut_link("node0", "node1"):
        bed.kill_node("node1")
        bed.start_node("node1")
        assert "198.18.11.0/24" in bed.node_exec("node1", "nft", "list", "ruleset")


def test_the_api_server_stops_and_starts(breakable: Bed, namespace: str) -> None:
    bed = breakable
    bed.kubectl("-n", namespace, "create", "configmap", "kept")
    bed.stop_api_server()
    try:
        assert not members_named(state_folder(), "apiserver")
        with pytest.raises(BedError, match="refused"):
            bed.kubectl("get", "nodes")
        with pytest.raises(BedError, match="apiserver is already stopped"):
            bed.stop_api_server()
    finally:
        bed.start_api_server()
    assert bed.kubectl("get", "--raw", "/readyz") == "ok"
    assert "kept" in bed.kubectl("-n", namespace, "get", "configmaps")
    with pytest.raises(BedError, match="apiserver is already running"):
        bed.start_api_server()


def test_etcd_stops_and_starts_with_its_data(breakable: Bed, namespace: str) -> None:
    bed = breakable
    bed.kubectl("-n", namespace, "create", "configmap", "kept")
    before = bed.kubectl_json("-n", namespace, "get", "configmap", "kept")
    bed.stop_etcd()
    try:
        with pytest.raises(BedError):
            bed.kubectl("get", "--raw", "/readyz")
    finally:
        bed.start_etcd()
    assert bed.kubectl("get", "--raw", "/readyz") == "ok"
    assert bed.kubectl_json("-n", namespace, "get", "configmap", "kept") == before


def test_a_paused_container_stands_still_with_all_its_processes(
    breakable: Bed, namespace: str
) -> None:
    bed = breakable
    script = "sleep 424242 & exec python3 -m http.server 8000 --directory /proc/self"
    victim = pod("victim", "node0", "bash", "-c", script)
    beside = victim["spec"]["containers"][0] | {"name": "beside", "command": ["sleep", "434343"]}
    victim["spec"]["containers"].append(beside)
    run_pods(bed, namespace, victim)

    def states() -> list[str]:
        return [*processes(bed, "node0", "424242"), *processes(bed, "node0", "/proc/self")]

    bed.pause_process(namespace, "victim", "main")
    wait_until(lambda: states() == ["T", "T"], timeout_s=10, what="both processes to stand still")
    assert processes(bed, "node0", "434343") == ["S"]
    bed.resume_process(namespace, "victim", "main")
    wait_until(lambda: states() == ["S", "S"], timeout_s=10, what="both processes to go on")
    bed.kubectl("-n", namespace, "exec", "victim", "-c", "main", "--", "true")


@pytest.mark.own_bed
def test_a_bed_that_is_broken_in_every_way_leaves_nothing_behind() -> None:
    before = inventory(state_folder())
    assert not before.processes
    with Bed.up() as bed:
        run_pods(bed, "default", pod("victim", "node0", "sleep", "424242"))
        bed.pause_process("default", "victim", "main")
        bed.cut_link("node0", "node1")
        bed.cut_from_api("node0")
        bed.kill_node("node1")
        bed.stop_api_server()
        bed.stop_etcd()
        assert processes(bed, "node0", "424242") == ["T"]
    assert inventory(state_folder()) == before

"""What can be broken in a bed, and restored: nodes, processes, links and the control plane.

Nothing that is broken here outlives the bed: cuts are in the nodes' network namespaces, and a
stopped process can be killed like any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from urllib.error import URLError
from urllib.request import urlopen

from bed import controlplane, pki
from bed.addresses import ETCD_CLIENT_PORT, node_addresses
from bed.client import Client
from bed.command import Argv
from bed.config import BedConfig
from bed.controlplane import Places
from bed.cuts import Link
from bed.errors import BedError
from bed.node import Node
from bed.once import Records
from bed.processes import await_part, kill, members_named, spawn

_API_TIMEOUT_S = 90
_ETCD_TIMEOUT_S = 30
_API_STARTS = "api-server-starts"


class Breakable:
    """The parts of a cluster, with methods that break one and methods that restore it."""

    def __init__(self, config: BedConfig, places: Places) -> None:
        self._config = config
        self._places = places
        self._client = Client(places.binaries, places.kubeconfig(pki.ADMIN))
        self._nodes = {a.name: Node(a, places) for a in node_addresses(config.nodes)}
        self._cut: list[Link] = []
        # Others have tests on this bed at the moment, which a fault would spoil.
        self._shared = False

    @property
    def records(self) -> Records:
        """What all processes that work with this bed know of it."""
        return Records(self._places.state / "records")

    def _refuse_if_shared(self) -> None:
        if self._shared:
            raise BedError(
                "other tests run on this bed at the same time: mark the one that breaks it with"
                " `alone`"
            )

    def kill_node(self, node: str) -> None:
        """Kill all that runs on a node, pods included; the Node object stays, as after a crash."""
        self._refuse_if_shared()
        self._node(node).crash()

    def start_node(self, node: str) -> None:
        """Start a killed node anew, as a machine that comes back after a power cut."""
        dead = self._node(node)
        dead.start_machine(self._config, [n.address for n in self._nodes.values()])
        # Its end of the cuts was lost with its namespace.
        dead.cut(self._cut)
        dead.start_kubernetes()
        if self._config.policy_engine == "kube-router":
            dead.start_firewall()

    def kill_process(self, namespace: str, pod: str, container: str, signal: str = "KILL") -> None:
        """Send a signal to the main process of a pod's container, from the node's side."""
        node, container_id = self._container(namespace, pod, container)
        node.signal_container(container_id, signal)

    def pause_process(self, namespace: str, pod: str, container: str) -> None:
        """Stop all processes of a pod's container where they are, as SIGSTOP does."""
        node, container_id = self._container(namespace, pod, container)
        node.signal_container(container_id, "STOP", everyone=True)

    def resume_process(self, namespace: str, pod: str, container: str) -> None:
        """Let the processes of a paused container go on."""
        node, container_id = self._container(namespace, pod, container)
        node.signal_container(container_id, "CONT", everyone=True)

    def cut_link(self, node: str, other: str) -> AbstractContextManager[None]:
        """Drop every packet between two nodes and their pods, at once and in both directions.

        No side is notified: established connections fall silent. Leaving the returned context
        restores the link, and `restore_links` restores all.
        """
        self._refuse_if_shared()
        if node == other:
            raise BedError(f"cut_link: name two different nodes, not {node!r} twice")
        return self._add_cut(Link(self._node(node).address, self._node(other).address))

    def cut_from_api(self, node: str) -> AbstractContextManager[None]:
        """Drop every packet between the API server and a node with its pods, as `cut_link` does.

        All else still flows, DNS and pods of other nodes among it.
        """
        self._refuse_if_shared()
        return self._add_cut(Link(self._node(node).address))

    def restore_links(self) -> None:
        """Remove every cut, also those that another process made."""
        self._cut.clear()
        self._apply_cuts()

    def stop_api_server(self) -> None:
        """Kill the API server; returns when it is gone. Its connections end with it."""
        self._refuse_if_shared()
        self._stop("apiserver")

    def start_api_server(self) -> None:
        """Start a stopped API server as it was; returns when it says that it is ready."""
        began = datetime.now(UTC)
        self._start_part("apiserver", controlplane.api_server(self._places))
        self._await_api()
        self.records.add(_API_STARTS, [began.isoformat(), datetime.now(UTC).isoformat()])

    def api_server_was_starting(self, at: datetime) -> bool:
        """Return whether the API server, started anew, was not ready yet at that moment.

        It answers all the same, and forbids what it allows later: it has not read its roles yet.
        """
        starts = self.records.added(_API_STARTS)
        return any(
            datetime.fromisoformat(began) <= at <= datetime.fromisoformat(ready)
            for began, ready in starts
        )

    def stop_etcd(self) -> None:
        """Kill etcd; returns when it is gone. Its data stay, and the API server lives on."""
        self._refuse_if_shared()
        self._stop("etcd")

    def start_etcd(self) -> None:
        """Start a stopped etcd on its data; returns when the API server, if it runs, is ready."""
        self._start_part("etcd", controlplane.etcd(self._places))
        await_part(self._places.state, "etcd", _etcd_is_healthy, _ETCD_TIMEOUT_S)
        if members_named(self._places.state, "apiserver"):
            self._await_api()

    def _node(self, name: str) -> Node:
        if name not in self._nodes:
            raise BedError(f"there is no node {name!r}; the bed has {', '.join(self._nodes)}")
        return self._nodes[name]

    def _container(self, namespace: str, pod: str, container: str) -> tuple[Node, str]:
        """Return where a running container is, and its id there."""
        found = self._client.kubectl_json("-n", namespace, "get", "pod", pod)
        status = found.get("status", {})
        running = {
            entry["name"]: entry["containerID"].removeprefix("containerd://")
            for key in ("initContainerStatuses", "containerStatuses")
            for entry in status.get(key, [])
            if "running" in entry.get("state", {})
        }
        if container not in running:
            raise BedError(
                f"pod {namespace}/{pod} has no running container {container!r};"
                f" running are: {', '.join(running) or 'none'}"
            )
        return self._node(found["spec"]["nodeName"]), running[container]

    def _add_cut(self, link: Link) -> AbstractContextManager[None]:
        self._cut.append(link)
        self._apply_cuts()
        return self._restored_after(link)

    @contextmanager
    def _restored_after(self, link: Link) -> Iterator[None]:
        try:
            yield
        finally:
            if link in self._cut:  # else `restore_links` was there before
                self._cut.remove(link)
                self._apply_cuts()

    def _apply_cuts(self) -> None:
        for node in self._nodes.values():
            if node.is_alive():
                node.cut(self._cut)

    def _stop(self, part: str) -> None:
        running = members_named(self._places.state, part)
        if not running:
            raise BedError(f"{part} is already stopped")
        kill(running)

    def _start_part(self, part: str, argv: Argv) -> None:
        if members_named(self._places.state, part):
            raise BedError(f"{part} is already running")
        spawn(self._places.state, part, argv)

    def _api_is_ready(self) -> bool:
        try:
            return self._client.kubectl("get", "--raw", "/readyz") == "ok"
        except BedError:
            return False

    def _await_api(self) -> None:
        await_part(self._places.state, "apiserver", self._api_is_ready, _API_TIMEOUT_S)


def _etcd_is_healthy() -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{ETCD_CLIENT_PORT}/health", timeout=1) as response:
            return b'"true"' in response.read()
    except (URLError, OSError):
        return False

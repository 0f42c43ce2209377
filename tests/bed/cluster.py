"""The bed as a whole: bring a cluster up, work with it, and take it down; `faults.py` breaks it.

The order of coming up: claim, clear what a killed bed left, certificates, bridge, etcd and API
server; while those start, the nodes' namespaces with containerd; then kubelets, DNS and the rest. A
failure on the way takes down what is there, and its error shows the log of what failed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from bed import controlplane, diagnostics, dns, imagestore, network, pki, played
from bed.binaries import binaries, kwok
from bed.cache import cache_root, progress
from bed.claim import Claim, state_folder
from bed.client import Client
from bed.command import wait_until
from bed.config import BedConfig
from bed.controlplane import Places
from bed.errors import BedError
from bed.faults import Breakable
from bed.images import base_archive
from bed.processes import await_part, kill, log_path, members, members_named, spawn
from bed.rest import Rest
from bed.sweep import sweep

_NODES_TIMEOUT_S = 90
_DNS_TIMEOUT_S = 30

Lifetime = Literal["process", "until-down"]


class Bed(Breakable):
    """A running cluster. `Bed.up` makes one; `down`, or leaving the `with` block, removes it."""

    def __init__(self, config: BedConfig, places: Places, claim: Claim | None) -> None:
        super().__init__(config, places)
        self._claim = claim
        self._rest = Rest(places.kubeconfig(pki.ADMIN))

    @classmethod
    def up(cls, config: BedConfig | None = None, *, lifetime: Lifetime = "process") -> Self:
        """Bring a bed up.

        With lifetime `process` it belongs to this process: whoever comes after its death clears the
        bed away. With `until-down` it stays, and only `down` removes it.
        """
        config = (config or BedConfig()).checked()
        state = state_folder()
        _refuse_hidden_folders(state)
        places = Places(state, binaries())
        # Every image stands on the base, so having it as an image of its own costs nothing.
        store = imagestore.template([base_archive(), *config.images])
        claim = Claim(state)
        try:
            claim.refuse_standing_bed()
            imagestore.prune()
            bed = cls(config, places, claim)
            bed._come_up(store)
            claim.record(stays=lifetime == "until-down")
        except BaseException:
            claim.release()
            raise
        return bed

    @classmethod
    def attached(cls, *, shared: bool = False) -> Self:
        """Return a handle on the bed that is up, whoever brought it up; it cannot take it down.

        A handle on a shared bed cannot break it either, since others work with it.
        """
        places = Places(state_folder(), binaries())
        # Any part will do: the API server may be what a test stopped.
        if not any(member.state == places.state for member in members()):
            raise BedError("no bed is up: run `make bed-up` first")
        config = BedConfig.from_json(places.configuration.read_text())
        bed = cls(config, places, None)
        bed._shared = shared
        return bed

    @property
    def config(self) -> BedConfig:
        """What the bed was made with."""
        return self._config

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig of the cluster's admin."""
        return self._client.kubeconfig

    @property
    def audit_log(self) -> Path:
        """The API server's audit log: one JSON event a line, of level Metadata."""
        return self._places.audit_log

    @property
    def log_folder(self) -> Path:
        """Folder with a log of every program of the bed."""
        return log_path(self._places.state, "any").parent

    @property
    def binaries(self) -> Path:
        """Folder of kubectl, helm and the other programs."""
        return self._places.binaries

    @property
    def client(self) -> Client:
        """kubectl and helm for this cluster."""
        return self._client

    @property
    def node_names(self) -> list[str]:
        """Names of the nodes, dead ones included."""
        return list(self._nodes)

    def kubectl(self, *args: str, input: str | None = None, check: bool = True) -> str:  # noqa: A002  (subprocess calls it so)
        """Run kubectl as admin and return its output; a failure is a BedError with what it said."""
        return self._client.kubectl(*args, stdin=input, check=check)

    def kubectl_json(self, *args: str) -> Any:
        """Run kubectl with JSON output and return what it says."""
        return self._client.kubectl_json(*args)

    @property
    def rest(self) -> Rest:
        """The API server asked without kubectl, by its own paths."""
        return self._rest

    def helm(self, *args: str) -> str:
        """Run helm as admin and return its output; a failure is a BedError with what it said."""
        return self._client.helm(*args)

    def diagnostics(self, namespace: str) -> str:
        """Return what to look at when something failed in a namespace."""
        return diagnostics.report(self._client, namespace)

    def node_exec(self, node: str, *argv: str) -> str:
        """Run a command in a node's namespaces, beside its kubelet, and return its output."""
        return self._node(node).run(argv)

    def play_nodes(self, count: int, *, closed: bool = True) -> AbstractContextManager[None]:
        """Add nodes named played-N, on which pods are Ready after a moment without running.

        Pods go there by `played.PLACEMENT` only, or, if the nodes are not closed, as anywhere.
        Leaving the returned context removes the nodes, and so does `remove_played_nodes`.
        """
        self._refuse_if_shared()
        places = self._places
        configured = places.state / "kwok.yaml"
        configured.write_text(played.configuration())
        kubeconfig = places.kubeconfig(pki.ADMIN)
        listed = {"apiVersion": "v1", "kind": "List", "items": played.nodes(count, closed=closed)}
        self.kubectl("apply", "-f", "-", input=json.dumps(listed))
        self._start_part("kwok", played.command(kwok(), configured, kubeconfig))

        def all_ready() -> bool:
            return self._ready_nodes("-l", played.SELECTOR) == count

        try:
            await_part(places.state, "kwok", all_ready, _NODES_TIMEOUT_S)
        except BedError:
            self.remove_played_nodes()
            raise
        return self._unplayed_after()

    def remove_played_nodes(self) -> None:
        """Remove all played nodes; their pods go with them."""
        self.kubectl("delete", "nodes", "-l", played.SELECTOR)
        kill(members_named(self._places.state, "kwok"))

    @contextmanager
    def _unplayed_after(self) -> Iterator[None]:
        try:
            yield
        finally:
            self.remove_played_nodes()

    def down(self) -> None:
        """Remove the bed. Doing it twice does no harm."""
        self._rest.close()
        if self._claim is not None:
            sweep(self._places.state)
            self._claim.release()
            self._claim = None

    def leave(self) -> None:
        """Let go of a bed that stays: this process may end, or another one take it down."""
        self._rest.close()
        if self._claim is not None:
            self._claim.release()
            self._claim = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.down()

    def _come_up(self, store: Path) -> None:
        assert self._claim is not None
        began = time.monotonic()
        # Also where no bed is recorded: someone may have removed the state folder under a bed.
        sweep(self._places.state)
        self._claim.record(stays=False)
        try:
            self._start_control_plane()
            for node in self._nodes.values():
                node.install(store)
                node.start_machine(self._config, [n.address for n in self._nodes.values()])
            self._await_api()
            self._start_cluster()
            self._await_cluster()
        except BaseException:
            sweep(self._places.state)
            raise
        progress(f"the bed is up after {time.monotonic() - began:.1f} s")

    def _spawn(self, name: str, argv: Any) -> None:
        spawn(self._places.state, name, argv)

    def _start_control_plane(self) -> None:
        places = self._places
        places.configuration.write_text(self._config.to_json())
        pki.issue(places.pki, [node.address for node in self._nodes.values()])
        controlplane.write_configuration(places)
        network.create_bridge()
        self._spawn("etcd", controlplane.etcd(places))
        self._spawn("apiserver", controlplane.api_server(places))

    def _start_cluster(self) -> None:
        places = self._places
        self._spawn("controller-manager", controlplane.controller_manager(places))
        self._spawn("scheduler", controlplane.scheduler(places))
        for node in self._nodes.values():
            node.start_kubernetes()
        corefile = places.state / "Corefile"
        corefile.write_text(dns.corefile(places.kubeconfig("coredns")))
        self._spawn("coredns", dns.command(places.binaries, corefile))
        listed = {"apiVersion": "v1", "kind": "List", "items": dns.objects()}
        self.kubectl("apply", "-f", "-", input=json.dumps(listed))

    def _ready_nodes(self, *selection: str) -> int:
        ready = 0
        for node in self.kubectl_json("get", "nodes", *selection)["items"]:
            conditions = {c["type"]: c["status"] for c in node["status"].get("conditions", [])}
            ready += conditions.get("Ready") == "True"
        return ready

    def _nodes_are_ready(self) -> bool:
        return self._ready_nodes() == len(self._nodes)

    def _await_cluster(self) -> None:
        state = self._places.state
        # A kubelet that fails is the usual reason; its log is the one worth showing.
        await_part(state, "node0-kubelet", self._nodes_are_ready, _NODES_TIMEOUT_S)
        if self._config.policy_engine == "kube-router":
            for node in self._nodes.values():
                node.start_firewall()
        await_part(state, "coredns", dns.ready, _DNS_TIMEOUT_S)
        # Without it no pod can be made in the default namespace yet.
        account = ("-n", "default", "get", "serviceaccount", "default", "--ignore-not-found")
        wait_until(
            lambda: bool(self.kubectl(*account)),
            timeout_s=_DNS_TIMEOUT_S,
            what="the controller manager to make the default service account",
        )


def _refuse_hidden_folders(state: Path) -> None:
    # A node covers these with its own; what the bed keeps there would be out of its sight.
    for folder, variable in ((state, "MORIIO_BED_STATE"), (cache_root(), "MORIIO_CACHE")):
        for covered in ("/mnt", "/run", "/dev", "/var/log", "/var/lib/kubelet", "/var/lib/cni"):
            if folder.is_relative_to(covered):
                raise BedError(f"{variable} is {folder}, and nodes do not see the host's {covered}")

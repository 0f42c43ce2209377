"""One node of a bed: its namespaces, its programs, and its sudden death.

The programs of a node are containerd, kubelet, kube-proxy and, where policies are enforced,
kube-router's firewall. Each is a process of the host's that entered the node's namespaces.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bed import cgroups, imagestore, network, nodeconfig, pki
from bed.addresses import SERVICE_NETWORK, NodeAddress
from bed.command import Argv, run, succeeds
from bed.config import BedConfig
from bed.controlplane import Places
from bed.cuts import Link, ruleset
from bed.errors import BedError
from bed.nodespace import NodeFolders, enter, hold, setup_script
from bed.processes import await_part, kill, members, namespace_init, spawn

_EXEC_S = 2.0
_START_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class Node:
    """A node, alive or not."""

    address: NodeAddress
    places: Places

    @property
    def name(self) -> str:
        """The name of the Node object."""
        return self.address.name

    @property
    def folders(self) -> NodeFolders:
        """The node's files on the host."""
        return NodeFolders(self.places.state / self.name)

    def _part(self, program: str) -> str:
        return f"{self.name}-{program}"

    def init_pid(self) -> int:
        """Pid, on the host, of the node's process 1."""
        deadline = time.monotonic() + _EXEC_S
        while (pid := namespace_init(self.places.state, self._part("init"))) is None:
            if time.monotonic() > deadline:
                raise BedError(f"{self.name} is not running; bring it up with start_node")
            # The shell that made the node becomes `tini`, and while a process execs its mark,
            # which is in its environment, cannot be read.
            time.sleep(0.02)
        return pid

    def _spawn(self, program: str, argv: Argv) -> None:
        inside = [*enter(self.init_pid()), *argv]
        spawn(self.places.state, self._part(program), inside)

    def install(self, store: Path) -> None:
        """Write the node's files, with the images of a template store."""
        self.folders.create()
        settings = self.folders.settings
        for folder in ("cni", "opt", "volume-plugins"):
            (settings / folder).mkdir()
        config = nodeconfig.kubelet(self.address, self.places.pki, settings)
        proxy = nodeconfig.kube_proxy(self.address, self.places.kubeconfig("kube-proxy"))
        texts = {
            "containerd.toml": nodeconfig.containerd(self.folders.containerd, settings),
            "cni/10-bed.conflist": nodeconfig.cni(self.address),
            "kubelet.json": config,
            "kube-proxy.json": proxy,
            "kubelet.kubeconfig": pki.kubeconfig(self.places.pki, self.name),
            "kube-router.kubeconfig": pki.kubeconfig(self.places.pki, "kube-router"),
            "resolv.conf": "",
        }
        for file, text in texts.items():
            (settings / file).write_text(text)
        imagestore.clone(store, self.folders.containerd)

    def start_machine(self, config: BedConfig, peers: Sequence[NodeAddress]) -> None:
        """Make the node's namespaces, cable and cgroup, and start containerd in it."""
        devices = config.devices.paths() if config.devices else []
        # Those of a crash before: no machine starts with cgroups of pods that ran once, and the
        # kubelet would look into them for half a minute.
        cgroups.remove(self.address.cgroup)
        cgroups.create(self.address.cgroup)
        self.folders.is_up.unlink(missing_ok=True)
        script = setup_script(self.folders, devices, config.mounts)
        spawn(self.places.state, self._part("init"), hold(script))
        await_part(
            self.places.state, self._part("init"), self.folders.is_up.exists, _START_TIMEOUT_S
        )
        network.connect(self.address, self.init_pid(), peers)
        self._spawn("containerd", ["containerd", "-c", self.folders.settings / "containerd.toml"])

    def start_kubernetes(self) -> None:
        """Start what makes the machine a node; the API server and containerd must answer."""
        self._await_containerd()
        settings, binaries = self.folders.settings, self.places.binaries
        self._spawn(
            "kubelet",
            [
                binaries / "kubelet",
                f"--config={settings / 'kubelet.json'}",
                f"--kubeconfig={settings / 'kubelet.kubeconfig'}",
                f"--hostname-override={self.name}",
                f"--node-ip={self.address.ip}",
            ],
        )
        proxy: Argv = [binaries / "kube-proxy", f"--config={settings / 'kube-proxy.json'}"]
        self._spawn("kube-proxy", proxy)

    def start_firewall(self) -> None:
        """Start the NetworkPolicy engine and wait until it polices; the Node object must exist."""
        self._spawn("kube-router", self._firewall())
        chain = [*enter(self.init_pid()), "iptables", "-S", "KUBE-ROUTER-FORWARD"]
        await_part(
            self.places.state,
            self._part("kube-router"),
            lambda: succeeds(chain),
            _START_TIMEOUT_S,
        )

    def _firewall(self) -> list[str | Path]:
        return [
            self.places.binaries / "kube-router",
            f"--kubeconfig={self.folders.settings / 'kube-router.kubeconfig'}",
            f"--hostname-override={self.name}",
            "--run-firewall=true",
            "--run-router=false",
            "--run-service-proxy=false",
            "--run-loadbalancer=false",
            "--enable-cni=false",
            f"--service-cluster-ip-range={SERVICE_NETWORK}",
            "--metrics-port=0",
            "--health-port=0",
        ]

    def _await_containerd(self) -> None:
        client = ["ctr", "-a", nodeconfig.CONTAINERD_SOCKET, "-n", "k8s.io"]
        asks = [*enter(self.init_pid()), *client, "version"]
        await_part(
            self.places.state,
            self._part("containerd"),
            lambda: succeeds(asks),
            _START_TIMEOUT_S,
        )

    def run(self, argv: Argv) -> str:
        """Run a command in the node's namespaces and return its output."""
        return run([*enter(self.init_pid()), *argv])

    def signal_container(self, container_id: str, signal: str, *, everyone: bool = False) -> None:
        """Send a signal to a container's main process, or to all of them, from the node's side.

        From inside its PID namespace not even SIGKILL reaches process 1.
        """
        client = ["ctr", "-a", nodeconfig.CONTAINERD_SOCKET, "-n", "k8s.io"]
        # runc freezes the container before it looks, so no process escapes by a fork.
        whom = ["--all"] * everyone
        self.run([*client, "task", "kill", "--signal", signal, *whom, container_id])

    def is_alive(self) -> bool:
        """Whether the node's namespaces are there."""
        return namespace_init(self.places.state, self._part("init")) is not None

    def cut(self, links: Sequence[Link]) -> None:
        """Drop what goes over these links, and let all else pass."""
        run([*enter(self.init_pid()), "nft", "-f", "-"], stdin=ruleset(self.address, links))

    def crash(self) -> None:
        """Kill everything that runs on the node at once, as a power cut would."""
        prefix = f"{self.name}-"
        own = [m for m in members() if m.state == self.places.state and m.name.startswith(prefix)]
        # Process 1 first: the kernel kills all others in its namespace with it, so none has the
        # time to notice that another one is gone.
        init = self.init_pid()
        own.sort(key=lambda member: member.pid != init)
        kill(own)

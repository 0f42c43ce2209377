"""The control plane: etcd, API server, controller manager and scheduler, as processes of the host.

The API server listens on the bridge, the others on loopback or nowhere. It keeps an audit log, from
which tests prove who wrote what, and when nobody wrote anything.

A dead node must be noticed within the time that a test can wait, and a busy machine must not look
like a dead node: a node that has been silent for 15 s is NotReady (kubelets speak every 2 s), and
after 10 s more its pods are evicted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from bed import addresses, pki
from bed.command import Argv

NODE_SILENCE_S = 15
EVICTION_DELAY_S = 10

_FAST_CLIENT = ("--kube-api-qps=200", "--kube-api-burst=400")


@dataclass(frozen=True, slots=True)
class Places:
    """Where the control plane's files are."""

    state: Path
    binaries: Path

    @property
    def pki(self) -> Path:
        """Folder of keys and certificates."""
        return self.state / "pki"

    @property
    def audit_log(self) -> Path:
        """The API server's audit log: one JSON event a line."""
        return self.state / "audit.log"

    @property
    def audit_policy(self) -> Path:
        """What the audit log shall hold."""
        return self.state / "audit-policy.json"

    @property
    def configuration(self) -> Path:
        """The configuration that the bed was made with."""
        return self.state / "config.json"

    def kubeconfig(self, identity: str) -> Path:
        """The kubeconfig of one identity."""
        return self.state / f"{identity}.kubeconfig"


def audit_policy() -> str:
    """Return the audit policy: who did what to which object, for every request, without bodies."""
    return json.dumps(
        {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [{"level": "Metadata"}],
        }
    )


def write_configuration(places: Places) -> None:
    """Write what the control plane's programs read, but for the certificates."""
    places.audit_policy.write_text(audit_policy())
    for identity in (pki.ADMIN, "controller-manager", "scheduler", "kube-proxy", "coredns"):
        places.kubeconfig(identity).write_text(pki.kubeconfig(places.pki, identity))


def etcd(places: Places) -> Argv:
    """Return the command of etcd. Nothing in it outlives the bed, so it need not reach the disk."""
    client = f"http://127.0.0.1:{addresses.ETCD_CLIENT_PORT}"
    peer = f"http://127.0.0.1:{addresses.ETCD_PEER_PORT}"
    return [
        places.binaries / "etcd",
        f"--data-dir={places.state / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
    ]


def api_server(places: Places) -> Argv:
    """Return the command of the API server."""
    keys = places.pki
    return [
        places.binaries / "kube-apiserver",
        f"--etcd-servers=http://127.0.0.1:{addresses.ETCD_CLIENT_PORT}",
        f"--advertise-address={addresses.BRIDGE_IP}",
        f"--bind-address={addresses.BRIDGE_IP}",
        f"--secure-port={addresses.API_PORT}",
        f"--service-cluster-ip-range={addresses.SERVICE_NETWORK}",
        f"--client-ca-file={keys / 'ca.crt'}",
        f"--tls-cert-file={keys / 'apiserver.crt'}",
        f"--tls-private-key-file={keys / 'apiserver.key'}",
        f"--service-account-key-file={keys / 'service-accounts.pub'}",
        f"--service-account-signing-key-file={keys / 'service-accounts.key'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        f"--kubelet-certificate-authority={keys / 'ca.crt'}",
        f"--kubelet-client-certificate={keys / 'kubelet-client.crt'}",
        f"--kubelet-client-key={keys / 'kubelet-client.key'}",
        "--kubelet-preferred-address-types=InternalIP",
        # One authority signs everybody here, so the names of who may speak for others are told
        # apart; since 1.35 the server refuses to start without.
        f"--requestheader-client-ca-file={keys / 'ca.crt'}",
        "--requestheader-allowed-names=front-proxy",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        f"--proxy-client-cert-file={keys / 'front-proxy.crt'}",
        f"--proxy-client-key-file={keys / 'front-proxy.key'}",
        f"--audit-policy-file={places.audit_policy}",
        f"--audit-log-path={places.audit_log}",
        # In megabytes: never rotated within a bed's life, so a test sees all of it in one file.
        "--audit-log-maxsize=10000",
        f"--default-not-ready-toleration-seconds={EVICTION_DELAY_S}",
        f"--default-unreachable-toleration-seconds={EVICTION_DELAY_S}",
    ]


def controller_manager(places: Places) -> Argv:
    """Return the command of the controller manager."""
    kubeconfig = places.kubeconfig("controller-manager")
    return [
        places.binaries / "kube-controller-manager",
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        "--leader-elect=false",
        "--allocate-node-cidrs=false",
        "--use-service-account-credentials=true",
        f"--root-ca-file={places.pki / 'ca.crt'}",
        f"--service-account-private-key-file={places.pki / 'service-accounts.key'}",
        f"--cluster-signing-cert-file={places.pki / 'ca.crt'}",
        f"--cluster-signing-key-file={places.pki / 'ca.key'}",
        f"--node-monitor-grace-period={NODE_SILENCE_S}s",
        "--node-monitor-period=1s",
        *_FAST_CLIENT,
    ]


def scheduler(places: Places) -> Argv:
    """Return the command of the scheduler."""
    kubeconfig = places.kubeconfig("scheduler")
    return [
        places.binaries / "kube-scheduler",
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        "--leader-elect=false",
        *_FAST_CLIENT,
    ]

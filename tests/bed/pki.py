"""Certificates of a bed: one authority, made anew for each bed, that everything trusts.

Elliptic keys, so that making a dozen takes a fraction of a second.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bed import addresses
from bed.addresses import NodeAddress
from bed.command import Argv, run

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30")
_API_NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc")
ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom a certificate stands for: a user and group of Kubernetes, or a server's names."""

    file: str
    user: str
    group: str | None = None
    alternative_names: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        """The subject in openssl's notation."""
        return (f"/O={self.group}" if self.group else "") + f"/CN={self.user}"


def identities(nodes: Sequence[NodeAddress]) -> list[Identity]:
    """Everyone in a bed who shows a certificate."""
    ips = (addresses.BRIDGE_IP, addresses.API_SERVICE_IP, "127.0.0.1")
    api_names = (*(f"IP:{ip}" for ip in ips), *(f"DNS:{name}" for name in _API_NAMES))
    kubelets = [
        Identity(n.name, f"system:node:{n.name}", "system:nodes", (f"IP:{n.ip}", f"DNS:{n.name}"))
        for n in nodes
    ]
    return [
        Identity("apiserver", "kube-apiserver", None, api_names),
        Identity(ADMIN, "bed-admin", "system:masters"),
        Identity("controller-manager", "system:kube-controller-manager"),
        Identity("scheduler", "system:kube-scheduler"),
        Identity("kube-proxy", "system:kube-proxy"),
        Identity("kubelet-client", "bed-kubelet-client", "system:masters"),
        Identity("front-proxy", "front-proxy"),
        Identity("kube-router", "bed-kube-router", "system:masters"),
        Identity("coredns", "bed-coredns", "system:masters"),
        *kubelets,
    ]


def issue(folder: Path, nodes: Sequence[NodeAddress]) -> None:
    """Make the authority, all certificates with their keys, and the key of service accounts."""
    folder.mkdir(mode=0o700)
    authority = ["openssl", "req", "-x509", *_KEY, "-subj", "/CN=moriio-bed"]
    run([*authority, "-keyout", folder / "ca.key", "-out", folder / "ca.crt"])
    for identity in identities(nodes):
        _sign(folder, identity)
    private, public = folder / "service-accounts.key", folder / "service-accounts.pub"
    curve = ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    run(["openssl", "genpkey", *curve, "-out", private])
    run(["openssl", "pkey", "-in", private, "-pubout", "-out", public])


def _sign(folder: Path, identity: Identity) -> None:
    names = ",".join(identity.alternative_names)
    extensions = ["-addext", "basicConstraints=critical,CA:FALSE"]
    if names:
        extensions += ["-addext", f"subjectAltName={names}"]
    argv = ["openssl", "req", "-x509", *_KEY, "-subj", identity.subject, *extensions]
    signer: Argv = ["-CA", folder / "ca.crt", "-CAkey", folder / "ca.key"]
    key, certificate = (folder / f"{identity.file}.{kind}" for kind in ("key", "crt"))
    run([*argv, *signer, "-keyout", key, "-out", certificate])


def kubeconfig(folder: Path, file: str) -> str:
    """Return a kubeconfig, with everything in it, for the holder of a certificate."""

    def data(name: str) -> str:
        return base64.b64encode((folder / name).read_bytes()).decode()

    server = f"https://{addresses.BRIDGE_IP}:{addresses.API_PORT}"
    cluster = {"server": server, "certificate-authority-data": data("ca.crt")}
    user = {
        "client-certificate-data": data(f"{file}.crt"),
        "client-key-data": data(f"{file}.key"),
    }
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bed",
        "clusters": [{"name": "bed", "cluster": cluster}],
        "users": [{"name": file, "user": user}],
        "contexts": [{"name": "bed", "context": {"cluster": "bed", "user": file}}],
    }
    return json.dumps(config, indent=1)

"""Debian packages that the bed runs on the host and in its nodes.

They are installed when missing. Services that come with them (containerd's) must not start on the
host, so for the time of the install a policy-rc.d refuses every start; the host's own is put back.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bed.cache import progress
from bed.command import run
from bed.errors import BedError

PACKAGES = (
    "buildah",
    "ca-certificates",
    "conntrack",
    "containerd",
    "containernetworking-plugins",
    # The base image is Debian's, also on an Ubuntu host.
    "debian-archive-keyring",
    "ethtool",
    "gcc",
    "iproute2",
    "ipset",
    "iptables",
    "kmod",
    "libc6-dev",
    "mmdebstrap",
    "nftables",
    "openssl",
    "procps",
    "runc",
    "socat",
    "tini",
    "util-linux",
)

_POLICY = Path("/usr/sbin/policy-rc.d")
_REFUSAL = "#!/bin/sh\n# While the MoRIIO test bed installs packages: start no service.\nexit 101\n"
_HOSTS_OWN_POLICY = Path("/usr/sbin/policy-rc.d.before-moriio-bed")


def missing(status: str, wanted: tuple[str, ...] = PACKAGES) -> list[str]:
    """Pick from dpkg's `package status` lines what is wanted and not installed."""
    installed = {line.split()[0] for line in status.splitlines() if line.endswith(" installed")}
    return [package for package in wanted if package not in installed]


@contextmanager
def _no_service_starts() -> Iterator[None]:
    # What an install before this one, that was killed, left there is ours and not the host's.
    if _POLICY.exists() and _POLICY.read_text() != _REFUSAL:
        _POLICY.rename(_HOSTS_OWN_POLICY)
    _POLICY.write_text(_REFUSAL)
    _POLICY.chmod(0o755)
    try:
        yield
    finally:
        _POLICY.unlink()
        if _HOSTS_OWN_POLICY.exists():
            _HOSTS_OWN_POLICY.rename(_POLICY)


def install_packages() -> None:
    """Install the packages that are missing; nothing happens when none is."""
    if shutil.which("dpkg-query") is None:
        raise BedError("the bed needs a Debian or Ubuntu host: dpkg-query is not installed")
    if os.geteuid() != 0:
        raise BedError("the bed creates namespaces, mounts and cgroups: run it as root")
    if platform.machine() != "x86_64":
        raise BedError(
            f"the locks contain x86_64 packages only; this machine is {platform.machine()}"
        )
    wanted = ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *PACKAGES]
    absent = missing(run(wanted, check=False))
    if not absent:
        return
    progress(f"installing packages: {' '.join(absent)}")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    # A host may list third-party sources that are out of reach; what counts is the install below.
    patient = ["apt-get", "-q", "-o", "Acquire::Retries=3"]
    run([*patient, "update"], env=env, check=False)
    with _no_service_starts():
        run([*patient, "install", "-y", "--no-install-recommends", *absent], env=env)

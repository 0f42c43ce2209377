"""The base of all images: a minimal Debian bookworm as a tarball, made by mmdebstrap.

`images/base/` says what is in it. The locks of the images are for bookworm's Python 3.11, so it is
bookworm on every host. On a Debian host its apt sources, proxies and keys are taken over, so that a
mirror behind a company's wall works; elsewhere mmdebstrap knows where Debian's packages are.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bed.cache import REPO, digest, entry, tree_digest
from bed.command import run
from bed.errors import BedError
from bed.sandbox import sandboxed

BASE_REFERENCE = "localhost/moriio/base:dev"
_DEFINITION = REPO / "images" / "base"
_DEBIAN_SUITE = "bookworm"
_TARGETS = "$(ORIGIN)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)"
_TAKEN_OVER = ("Acquire::http", "Acquire::https")


@dataclass(frozen=True, slots=True)
class Distribution:
    """Whose packages the base is made of."""

    origin: str
    host_suite: str
    suite: str

    @property
    def keyring(self) -> Path:
        """Folder or file with the keys that sign the packages."""
        return Path(f"/usr/share/keyrings/{self.origin.lower()}-archive-keyring.gpg")


def distribution(os_release: dict[str, str]) -> Distribution:
    """Return the distribution of the base for a host with this os-release."""
    codename = os_release.get("VERSION_CODENAME", "")
    if os_release.get("ID") not in ("debian", "ubuntu"):
        raise BedError(
            f"the bed needs a Debian or Ubuntu host; this one reports ID={os_release.get('ID')}"
        )
    return Distribution("Debian", codename, _DEBIAN_SUITE)


def source_lines(targets: str, distro: Distribution) -> list[str]:
    """Turn apt's list of index targets into one-line sources for the base's suite.

    Only the distribution's own packages count: a third party's source has no place in the base.
    """
    components: dict[tuple[str, str], list[str]] = {}
    for origin, uri, release, component in (line.split("|") for line in targets.splitlines()):
        if origin == distro.origin and release.split("-")[0] == distro.host_suite:
            suite = release.replace(distro.host_suite, distro.suite, 1)
            parts = components.setdefault((uri, suite), [])
            if component not in parts:
                parts.append(component)
    options = f"[signed-by={distro.keyring}] " if distro.keyring.exists() else ""
    return [f"deb {options}{uri} {suite} {' '.join(c)}" for (uri, suite), c in components.items()]


def listed(text: str) -> list[str]:
    """Return the lines of a definition file, without comments and blank lines."""
    lines = (line.split("#")[0].strip() for line in text.splitlines())
    return [line for line in lines if line]


def _host_apt_options() -> Iterable[str]:
    for line in run(["apt-config", "dump"]).splitlines():
        name = line.split(" ")[0]
        if name.startswith(_TAKEN_OVER) and not line.endswith('"";'):
            yield f"--aptopt={line.rstrip(';')}"


def _debootstrap(tarball: Path) -> None:
    distro = distribution(platform.freedesktop_os_release())
    sources = source_lines(run(["apt-get", "indextargets", "--format", _TARGETS]), distro)
    excludes = listed((_DEFINITION / "dpkg-excludes").read_text())
    argv = [
        "mmdebstrap",
        "--variant=minbase",
        "--mode=root",
        "--format=tar",
        f"--include={','.join(listed((_DEFINITION / 'packages').read_text()))}",
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in excludes),
        '--aptopt=Acquire::Retries "3"',
        *_host_apt_options(),
        distro.suite,
        str(tarball),
    ]
    # With "-" mmdebstrap reads the sources from its input, without it takes Debian's own.
    run(
        sandboxed([*argv, "-"] if sources else argv),
        stdin="\n".join(sources) + "\n",
        env={**os.environ, "SOURCE_DATE_EPOCH": "0"},
    )


def base_tarball() -> Path:
    """Return the tarball of the base's root file system, made unless it is there."""
    suite = distribution(platform.freedesktop_os_release()).suite
    key = digest(tree_digest([_DEFINITION]), suite)
    return entry(
        f"base-{key}/root.tar", "making the base image (about a minute, once)", _debootstrap
    )

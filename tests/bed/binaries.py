"""The Go programs of the bed: built once, from the Go modules in `go/` and `go-kwok/`.

A module names each program as a `tool`, so their versions and checksums are pinned together. A cold
build of the first takes about ten minutes on two cores and a build cache of gigabytes, which is a
folder of its own and is dropped once all programs are there. kwok does not compile beside
Kubernetes 1.35, and few beds need it: it has a module of its own and is built when first asked for.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from bed.cache import cache_root, digest, discard, entry, progress, tree_digest
from bed.command import Argv, run
from bed.errors import BedError

_HERE = Path(__file__).resolve().parent
_MODULE = _HERE / "go"
_KWOK_MODULE = _HERE / "go-kwok"

# kube-apiserver first: it compiles most of what the others share.
PROGRAMS: Mapping[str, str] = {
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubelet": "k8s.io/kubernetes/cmd/kubelet",
    "kube-proxy": "k8s.io/kubernetes/cmd/kube-proxy",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "helm": "helm.sh/helm/v3/cmd/helm",
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-router": "github.com/cloudnativelabs/kube-router/v2/cmd/kube-router",
    "coredns": "./coredns",
}
_KWOK: Mapping[str, str] = {"kwok": "sigs.k8s.io/kwok/cmd/kwok"}


def kubernetes_version(go_mod: str) -> str:
    """Return the Kubernetes version that a go.mod text requires, such as v1.35.4."""
    found = re.search(r"^\s*(?:require )?k8s\.io/kubernetes (v\d+\.\d+\.\d+)", go_mod, re.MULTILINE)
    if found is None:
        raise BedError("go.mod does not require k8s.io/kubernetes; run `go mod tidy` in its folder")
    return found.group(1)


def linker_flags(version: str) -> str:
    """Return flags that strip the programs and tell them their version (else it is v0.0.0)."""
    major, minor, _ = version.removeprefix("v").split(".")
    package = "k8s.io/component-base/version"
    stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s", "-w", *(f"-X {package}.{key}={val}" for key, val in stamps.items())])


def _environment(build_cache: Path) -> dict[str, str]:
    return {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOFLAGS": "-buildvcs=false -mod=readonly -trimpath",
        "GOCACHE": str(build_cache),
    }


def _download(module: Path, env: Mapping[str, str]) -> None:
    fetch: Argv = ["go", "-C", module, "mod", "download"]
    # Some thousand small requests: one of them failing is no reason to give up.
    try:
        run(fetch, env=env)
    except BedError as first:
        progress(f"trying again after: {first}")
        run(fetch, env=env)


def _refuse_old_go(module: Path) -> None:
    wanted = go_version((module / "go.mod").read_text())
    if shutil.which("go") is None:
        raise BedError(
            f"the bed builds its programs with Go, which is not installed: install {wanted}"
        )
    found = run(["go", "env", "GOVERSION"]).strip()
    if _numbers(found) < _numbers(wanted):
        raise BedError(
            f"the bed's programs need Go {wanted} or newer; the installed `go` is {found}"
        )


def go_version(go_mod: str) -> str:
    """Return the version of Go that a go.mod asks for."""
    (line,) = (line for line in go_mod.splitlines() if line.startswith("go "))
    return line.removeprefix("go ").strip()


def _numbers(version: str) -> tuple[int, ...]:
    """Return a version's numbers, to compare: go1.26.8 is (1, 26, 8)."""
    return tuple(int(number) for number in re.findall(r"\d+", version))


def _build(module: Path, programs: Mapping[str, str], flags: str, folder: Path) -> None:
    _refuse_old_go(module)
    build_cache = cache_root() / f"go-build-{module.name}"
    env = _environment(build_cache)
    progress("downloading Go modules")
    _download(module, env)
    folder.mkdir(parents=True)
    for count, (name, package) in enumerate(programs.items(), start=1):
        began = time.monotonic()
        build: Argv = ["go", "-C", module, "build", "-ldflags", flags, "-o", folder / name]
        run([*build, package], env=env)
        took_s = time.monotonic() - began
        progress(f"Go programs: {name} built in {took_s:.0f} s ({count} of {len(programs)})")
    discard(build_cache)


def binaries() -> Path:
    """Return the folder with the Go programs, built unless they are there."""
    sources = [_MODULE / "go.mod", _MODULE / "go.sum", _MODULE / "coredns"]
    flags = linker_flags(kubernetes_version((_MODULE / "go.mod").read_text()))
    key = digest(tree_digest(sources), flags, *PROGRAMS.values())
    return entry(
        f"bin-{key}",
        "building the bed's Go programs (about ten minutes, once)",
        partial(_build, _MODULE, PROGRAMS, flags),
    )


def kwok() -> Path:
    """Return the program that plays nodes, built unless it is there."""
    flags = "-s -w"
    key = digest(tree_digest([_KWOK_MODULE]), flags, *_KWOK.values())
    folder = entry(
        f"kwok-{key}",
        "building kwok (about two minutes, once)",
        partial(_build, _KWOK_MODULE, _KWOK, flags),
    )
    return folder / "kwok"

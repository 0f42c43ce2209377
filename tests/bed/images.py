"""The project's images: built by buildah from their Dockerfiles into OCI archives in the cache.

An archive's name holds a hash of everything that defines it: Dockerfile, inputs, base, target and
arguments. So a change of any gives a new archive, and without a change nothing is built.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bed import buildhost
from bed.baseimage import BASE_REFERENCE, base_tarball
from bed.cache import REPO, cache_root, digest, discard, entry, exclusive, tree_digest
from bed.command import run
from bed.errors import BedError
from bed.oci import write_archive
from bed.sandbox import sandboxed

_TRUST_LOCAL = {"default": [{"type": "insecureAcceptAnything"}]}


@dataclass(frozen=True, slots=True)
class ImageSpec:
    """An image to build. `inputs` are what it is made of; where none are named, the context."""

    name: str
    dockerfile: Path
    context: Path
    inputs: tuple[Path, ...] = ()
    target: str | None = None
    build_args: Mapping[str, str] = field(default_factory=dict)
    tag: str = "dev"

    @property
    def reference(self) -> str:
        """The image's name in the cluster."""
        return f"localhost/moriio/{self.name}:{self.tag}"

    def key(self) -> str:
        """Return the hash of everything that defines the image."""
        inputs = tree_digest([self.dockerfile, *(self.inputs or (self.context,))])
        arguments = json.dumps(self.build_args, sort_keys=True)
        return digest(self.reference, inputs, base_archive().name, self.target or "", arguments)


_IMAGES = REPO / "images"

OPERATOR = ImageSpec(
    "operator",
    _IMAGES / "operator/Dockerfile",
    REPO / "operator",
    inputs=(REPO / "operator/moriio_operator", REPO / "operator/requirements/runtime.lock"),
)
ROUTER = ImageSpec("router", _IMAGES / "router/Dockerfile", _IMAGES / "router")
ENGINE_CPU_THIN = ImageSpec(
    "engine-cpu", _IMAGES / "engine-cpu/Dockerfile", _IMAGES / "engine-cpu", target="thin"
)
ENGINE_CPU_COMPLETE = ImageSpec(
    "engine-cpu",
    _IMAGES / "engine-cpu/Dockerfile",
    _IMAGES / "engine-cpu",
    target="complete",
    tag="complete",
)

# What `make images` builds, by the name that the command takes.
IMAGES: Mapping[str, ImageSpec] = {
    "operator": OPERATOR,
    "router": ROUTER,
    "engine-cpu": ENGINE_CPU_THIN,
    "engine-cpu-complete": ENGINE_CPU_COMPLETE,
}


def base_archive() -> Path:
    """Return the OCI archive of the base image."""
    tarball = base_tarball()
    name = f"images/base-{tarball.parent.name.removeprefix('base-')}.tar"

    def build(path: Path) -> None:
        write_archive(path, BASE_REFERENCE, tarball.read_bytes())

    return entry(name, "packing the base image", build)


def build_image(spec: ImageSpec) -> Path:
    """Return the OCI archive of an image, built unless it is there."""
    if not spec.dockerfile.is_file():
        raise BedError(f"image {spec.name}: there is no {spec.dockerfile}")
    name = f"images/{spec.name}-{spec.key()}.tar"
    archive = entry(name, f"building image {spec.reference}", lambda path: _build(spec, path))
    _drop_old(archive, spec.name)
    return archive


def _drop_old(wanted: Path, name: str, keep: int = 4) -> None:
    """Drop archives that an image had before: each change of its sources makes a new one."""
    others = [a for a in wanted.parent.glob(f"{name}-{'?' * 12}.tar") if a != wanted]
    others.sort(key=lambda archive: archive.stat().st_mtime)
    for archive in others[:-keep]:
        archive.unlink(missing_ok=True)


def _build(spec: ImageSpec, archive: Path) -> None:
    # One store for all builds, so that stages they have in common are built once; one at a time.
    with exclusive("buildah.lock"):
        work = cache_root() / "buildah" / "work"
        discard(work)
        work.mkdir(parents=True)
        try:
            (work / "policy.json").write_text(json.dumps(_TRUST_LOCAL))
            script = "\n".join(["set -eu", *_steps(spec, archive, work)])
            run(sandboxed(["bash", "-c", script]))
        finally:
            shutil.rmtree(work)


def _steps(spec: ImageSpec, archive: Path, work: Path) -> list[str]:
    store = cache_root() / "buildah"
    buildah = f"buildah --root '{store}/storage' --runroot '{work}/run'"
    trust = f"--signature-policy '{work}/policy.json'"
    options = [
        "--isolation=chroot",
        "--pull-never",
        "--layers",
        trust,
        f"--file='{spec.dockerfile}'",
        f"--tag='{spec.reference}'",
        *buildhost.this_host().volumes(work),
        *(f"--build-arg='{name}={value}'" for name, value in spec.build_args.items()),
    ]
    if spec.target:
        options.append(f"--target={spec.target}")
    return [
        # What a killed build left. With the store's mounts gone, so is every container's use.
        f"{buildah} rm --all > /dev/null",
        f"base=$({buildah} pull -q {trust} 'oci-archive:{base_archive()}')",
        f'{buildah} tag "$base" {BASE_REFERENCE}',
        f"{buildah} bud {' '.join(options)} '{spec.context}' >&2",
        # The archive goes no further than this machine, so its size matters less than the time.
        f"{buildah} push -q --compression-level=1 {trust}"
        f" '{spec.reference}' 'oci-archive:{archive}:{spec.reference}'",
        f"{buildah} rmi '{spec.reference}' > /dev/null",
    ]

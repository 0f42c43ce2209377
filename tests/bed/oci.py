"""OCI archives of one layer, written without any image tool.

Enough for the pause image (one static program) and for the base image (one root file system):
a tar file of layer, configuration, manifest and index, which containerd and buildah both read.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Blob:
    """A piece of an image, named by its hash."""

    media_type: str
    content: bytes

    @property
    def sha256(self) -> str:
        """The content's hash in hex."""
        return hashlib.sha256(self.content).hexdigest()

    def descriptor(self) -> dict[str, Any]:
        """How another piece of the image refers to this one."""
        return {
            "mediaType": self.media_type,
            "digest": f"sha256:{self.sha256}",
            "size": len(self.content),
        }


def _json_blob(kind: str, value: Mapping[str, Any]) -> Blob:
    return Blob(f"application/vnd.oci.image.{kind}.v1+json", json.dumps(value).encode())


def pieces(reference: str, layer: bytes, entrypoint: Sequence[str]) -> tuple[list[Blob], bytes]:
    """Return the blobs and the index of an image whose only layer is the tar file `layer`."""
    layer_blob = Blob("application/vnd.oci.image.layer.v1.tar", layer)
    path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    config = _json_blob(
        "config",
        {
            "architecture": _MACHINES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {"Env": [path], "Entrypoint": list(entrypoint)},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_blob.sha256}"]},
            # buildah counts: an image with more layers than history cannot be built upon.
            "history": [{"created_by": "the test bed"}],
        },
    )
    manifest = _json_blob(
        "manifest",
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config.descriptor(),
            "layers": [layer_blob.descriptor()],
        },
    )
    # containerd takes the whole name from its own annotation, buildah the standard one.
    names = {
        "io.containerd.image.name": reference,
        "org.opencontainers.image.ref.name": reference,
    }
    index = {"schemaVersion": 2, "manifests": [{**manifest.descriptor(), "annotations": names}]}
    return [layer_blob, config, manifest], json.dumps(index).encode()


def write_archive(path: Path, reference: str, layer: bytes, entrypoint: Sequence[str] = ()) -> None:
    """Write an OCI archive of an image with one layer."""
    blobs, index = pieces(reference, layer, entrypoint)
    with tarfile.open(path, "w") as archive:
        _put(archive, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        _put(archive, "index.json", index)
        for blob in blobs:
            _put(archive, f"blobs/sha256/{blob.sha256}", blob.content)


def one_file_layer(name: str, content: bytes) -> bytes:
    """Return a layer that holds one executable file."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        _put(layer, name, content, mode=0o755)
    return buffer.getvalue()


def _put(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    member.mode = mode
    archive.addfile(member, io.BytesIO(content))

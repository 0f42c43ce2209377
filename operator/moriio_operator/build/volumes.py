"""Volumes that every engine has: the model cache, and memory that its processes share."""

from __future__ import annotations

from typing import Any

from moriio_operator.api import names
from moriio_operator.api.model import Cache
from moriio_operator.build.pod import ContainerPatch, Contribution


def shared_memory() -> Contribution:
    """Give /dev/shm the pod's whole memory: the runtime's own 64 MiB are too little for ranks."""
    return Contribution(
        "shared memory",
        volumes=[{"name": "shm", "emptyDir": {"medium": "Memory"}}],
        main=ContainerPatch(mounts=[{"name": "shm", "mountPath": "/dev/shm"}]),  # noqa: S108 - the pod's own
    )


def model_cache(cache: Cache | None) -> Contribution:
    """Mount what the spec names for model files, or else a directory that goes with the pod."""
    return Contribution(
        "model cache",
        volumes=[{"name": "cache", **_source(cache)}],
        main=ContainerPatch(mounts=[{"name": "cache", "mountPath": names.CACHE_MOUNT}]),
    )


def _source(cache: Cache | None) -> dict[str, Any]:
    if cache is not None and cache.persistent_volume_claim is not None:
        return {"persistentVolumeClaim": {"claimName": cache.persistent_volume_claim.claim_name}}
    if cache is not None and cache.host_path is not None:
        return {"hostPath": {"path": cache.host_path.path, "type": "Directory"}}
    size = cache.empty_dir.size_limit if cache is not None and cache.empty_dir is not None else None
    return {"emptyDir": {} if size is None else {"sizeLimit": size}}

"""Check a role's `podTemplate` against what a user may say there.

An allowlist, not a blocklist: a field of a later Kubernetes is refused until somebody thought
about it. Every refusal carries its path. Values inside an allowed field are the API server's to
judge (strict dry-run before the first pod).
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Any

from moriio_operator.api import names
from moriio_operator.api.owned import OWNED_ENVIRONMENT
from moriio_operator.api.problem import Problem
from moriio_operator.api.reasons import Reason

# Names of the volumes that the operator adds to an engine pod.
DEVICE_VOLUMES = ("dri", "infiniband", "kfd")
OWNED_VOLUMES = ("cache", *DEVICE_VOLUMES, "shm")
OWNED_MOUNTS = (
    "/dev/dri",
    "/dev/infiniband",
    "/dev/kfd",
    "/dev/shm",  # noqa: S108 - a mount point in a pod
    names.CACHE_MOUNT,
)

SCHEDULING_FIELDS = (
    "affinity",
    "nodeSelector",
    "priorityClassName",
    "runtimeClassName",
    "schedulerName",
    "tolerations",
    "topologySpreadConstraints",
)
_TOP = ("metadata", "spec")
_METADATA = ("annotations", "labels")
_SPEC = (*SCHEDULING_FIELDS, "containers", "volumes")
_ENGINE = ("env", "name", "resources", "volumeMounts")


def problems(template: dict[str, Any] | None, path: str) -> Iterator[Problem]:
    """Check one template; `path` is where it stands, such as `spec.decode.podTemplate`."""
    if template is None:
        return
    yield from _only(template, _TOP, path)
    metadata = template.get("metadata") or {}
    yield from _only(metadata, _METADATA, f"{path}.metadata")
    for kind in _METADATA:
        yield from _metadata_problems(metadata, kind, f"{path}.metadata.{kind}")
    spec = template.get("spec") or {}
    yield from _only(spec, _SPEC, f"{path}.spec")
    yield from _volume_problems(spec, f"{path}.spec.volumes")
    yield from _container_problems(spec, f"{path}.spec.containers")


def host_problems(template: dict[str, Any] | None, path: str) -> Iterator[Problem]:
    """Check a template whose pods share the node's network, where a declared port is the node's.

    The scheduler would keep two of them from one node, or one from a node where anybody else has
    the port, and what it says of that looks the same as a clash of the engine's own ports.
    """
    spec = (template or {}).get("spec")
    for where, container, _ in _named(spec, "containers", f"{path}.spec.containers"):
        if container.get("name") != names.CONTAINER_ENGINE and container.get("ports"):
            yield _refuse(
                f"{where}.ports",
                "on the host network a port that is declared is taken from the node: remove it, "
                "the container can listen without",
            )


def _refuse(path: str, text: str) -> Problem:
    return Problem(Reason.TEMPLATE_REFUSED, path, text)


def _only(value: Any, allowed: tuple[str, ...], path: str) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield _refuse(path, "must be an object")
        return
    for key in value:
        if key not in allowed:
            yield _refuse(
                f"{path}.{key}",
                f"may not be set here, the operator owns it; allowed are {', '.join(allowed)}",
            )


def _metadata_problems(metadata: Any, kind: str, path: str) -> Iterator[Problem]:
    values = metadata.get(kind) if isinstance(metadata, dict) else None
    if values is None:
        return
    if not isinstance(values, dict):
        yield _refuse(path, "must be an object")
        return
    for key in values:
        if key.startswith(f"{names.GROUP}/") or key == names.LABEL_MANAGED_BY:
            yield _refuse(f"{path}[{key}]", "is the operator's own: choose another key")


def _named(spec: Any, field: str, path: str) -> Iterator[tuple[str, dict[str, Any], list[Problem]]]:
    """Walk a list of named objects; items without a name come as problems with an empty object."""
    if not isinstance(spec, dict) or field not in spec:
        return
    items = spec[field]
    # Also null: merged, it would take away what the operator put there.
    if not isinstance(items, list):
        yield path, {}, [_refuse(path, "must be a list")]
        return
    seen: set[str] = set()
    for index, item in enumerate(items):
        where = f"{path}[{index}]"
        name = item.get("name") if isinstance(item, dict) else None
        if not isinstance(name, str):
            yield where, {}, [_refuse(where, "must be an object with a name")]
            continue
        twice = [_refuse(f"{where}.name", f"{name!r} is given twice")] if name in seen else []
        seen.add(name)
        yield where, item, twice


def _volume_problems(spec: Any, path: str) -> Iterator[Problem]:
    for where, volume, found in _named(spec, "volumes", path):
        yield from found
        if volume.get("name") in OWNED_VOLUMES:
            yield _refuse(
                f"{where}.name", f"{volume['name']!r} is the operator's own: choose another name"
            )
        if "$patch" in volume:
            yield _refuse(f"{where}.$patch", "directives are not taken: leave the item out")


def _container_problems(spec: Any, path: str) -> Iterator[Problem]:
    for where, container, found in _named(spec, "containers", path):
        yield from found
        name = container.get("name")
        if name == names.CONTAINER_ENGINE:
            yield from _only(container, _ENGINE, where)
            yield from _engine_problems(container, where)
        elif name in names.RESERVED_CONTAINERS:
            yield _refuse(f"{where}.name", f"{name!r} is the operator's own: choose another name")
        elif name is not None:
            yield from _sidecar_problems(container, where)


def _engine_problems(container: dict[str, Any], path: str) -> Iterator[Problem]:
    yield from _resource_problems(container, f"{path}.resources")
    for where, variable, found in _named(container, "env", f"{path}.env"):
        yield from found
        name = str(variable.get("name", ""))
        if name in OWNED_ENVIRONMENT or name.startswith("VLLM_MORIIO_"):
            yield _refuse(f"{where}.name", f"{name} is set by the operator: remove it")
    yield from _mount_problems(container.get("volumeMounts", []), f"{path}.volumeMounts")


def _resource_problems(container: dict[str, Any], path: str) -> Iterator[Problem]:
    """Null, merged, would take away the devices that the operator asks for."""
    if "resources" not in container:
        return
    resources = container["resources"]
    if not isinstance(resources, dict):
        yield _refuse(path, "must be an object")
        return
    for kind, amounts in resources.items():
        if not isinstance(amounts, dict) and kind in ("limits", "requests"):
            yield _refuse(f"{path}.{kind}", "must be an object")


def _mount_problems(mounts: Any, path: str) -> Iterator[Problem]:
    if not isinstance(mounts, list):
        yield _refuse(path, "must be a list")
        return
    seen: set[str] = set()
    for index, mount in enumerate(mounts):
        where = f"{path}[{index}]"
        if not isinstance(mount, dict) or not isinstance(mount.get("mountPath"), str):
            yield _refuse(where, "must be an object with a mountPath")
            continue
        place = posixpath.normpath("/" + mount["mountPath"].lstrip("/"))
        if place in OWNED_MOUNTS:
            yield _refuse(
                f"{where}.mountPath", f"{mount['mountPath']} is mounted by the operator: remove it"
            )
        if place in seen:
            yield _refuse(f"{where}.mountPath", f"{mount['mountPath']} is given twice")
        seen.add(place)


def _sidecar_problems(container: dict[str, Any], path: str) -> Iterator[Problem]:
    """Give a sidecar no more rights than any pod has: the profile is for engines."""
    context = container.get("securityContext") or {}
    for field in ("privileged", "capabilities", "allowPrivilegeEscalation", "procMount"):
        if isinstance(context, dict) and field in context:
            yield _refuse(f"{path}.securityContext.{field}", "is not given to sidecars: remove it")
    mounts = container.get("volumeMounts", [])
    for index, mount in enumerate(mounts if isinstance(mounts, list) else []):
        if isinstance(mount, dict) and mount.get("name") in DEVICE_VOLUMES:
            yield _refuse(
                f"{path}.volumeMounts[{index}].name", "devices are for the engine alone: remove it"
            )
    ports = container.get("ports", [])
    if not isinstance(ports, list):
        yield _refuse(f"{path}.ports", "must be a list")
        return
    for index, port in enumerate(ports):
        if isinstance(port, dict) and "hostPort" in port:
            yield _refuse(f"{path}.ports[{index}].hostPort", "may not be set here: remove it")
    if "volumeDevices" in container:
        yield _refuse(f"{path}.volumeDevices", "may not be set here: remove it")

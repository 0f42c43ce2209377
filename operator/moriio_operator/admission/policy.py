"""The admin's policy: what a user's PDDeployment may ask of a node.

Whoever may create a PDDeployment of the privileged profile is nearly root on the node, so the
admin says, in the chart's values, where that is allowed. Nothing is by default.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import ConfigDict, Field, field_validator

from moriio_operator.api.deployment import Owner, Spec
from moriio_operator.api.network import NetworkMode
from moriio_operator.api.problem import Problem
from moriio_operator.api.reasons import Reason
from moriio_operator.api.schema import ApiModel
from moriio_operator.facts.terms import ROLES, Role


class Policy(ApiModel):
    """The chart values under `policy`; an unknown one is a mistake, and is refused."""

    model_config = ConfigDict(extra="forbid")

    privileged_namespaces: list[str] = Field(default_factory=list)
    host_network_namespaces: list[str] = Field(default_factory=list)
    host_path_prefixes: list[str] = Field(default_factory=list)
    # Empty: any image.
    image_prefixes: list[str] = Field(default_factory=list)
    # None: any number.
    max_gpus: int | None = Field(default=None, ge=0)

    @field_validator("host_path_prefixes")
    @classmethod
    def _absolute(cls, prefixes: list[str]) -> list[str]:
        for prefix in prefixes:
            if not prefix.startswith("/"):
                raise ValueError(f"{prefix!r} is no absolute path; it must begin with '/'")
        return prefixes


def problems(owner: Owner, policy: Policy) -> Iterator[Problem]:
    """Check a PDDeployment against the admin's policy."""
    spec = owner.spec
    # Privileged is the only profile there is, so every deployment needs the leave.
    if owner.namespace not in policy.privileged_namespaces:
        yield _refused(
            "spec.devices.profile",
            f"namespace {owner.namespace!r} may not run privileged pods: the admin adds it to the "
            "chart value policy.privilegedNamespaces",
        )
    host = spec.network.mode is NetworkMode.HOST
    if host and owner.namespace not in policy.host_network_namespaces:
        yield _refused(
            "spec.network.mode",
            f"namespace {owner.namespace!r} may not use the host network: the admin adds it to the "
            "chart value policy.hostNetworkNamespaces",
        )
    yield from _host_path_problems(spec, policy)
    yield from _image_problems(spec, policy)
    yield from _gpu_problems(spec, policy)


def _refused(path: str, text: str) -> Problem:
    return Problem(Reason.REFUSED_BY_POLICY, path, text)


def _host_path_problems(spec: Spec, policy: Policy) -> Iterator[Problem]:
    cache = spec.model.cache
    if cache is not None and cache.host_path is not None:
        yield from _path_problems("spec.model.cache.hostPath.path", cache.host_path.path, policy)
    for role in ROLES:
        for index, volume in _items(spec, role, "volumes"):
            host_path = volume.get("hostPath")
            if host_path is not None:
                path = host_path.get("path") if isinstance(host_path, dict) else host_path
                where = f"spec.{role}.podTemplate.spec.volumes[{index}].hostPath.path"
                yield from _path_problems(where, path, policy)


def _image_problems(spec: Spec, policy: Policy) -> Iterator[Problem]:
    for where, image in _images(spec):
        if not policy.image_prefixes or any(_begins(image, p) for p in policy.image_prefixes):
            continue
        yield _refused(
            where,
            f"image {image!r} begins with none of the prefixes that the admin allows "
            f"({', '.join(policy.image_prefixes)}): use one of them, or the admin adds its prefix "
            "to the chart value policy.imagePrefixes",
        )


def _begins(image: object, prefix: str) -> bool:
    """Return whether an image is below a prefix, and not below another whose name goes on."""
    if not isinstance(image, str) or not image.startswith(prefix):
        return False
    rest = image[len(prefix) :]
    if "/" not in prefix and rest.startswith(":") and "/" in rest:
        return False  # another port of the host that the prefix names
    return prefix.endswith(("/", ":", "@")) or rest[:1] in ("", "/", ":", "@")


def _images(spec: Spec) -> Iterator[tuple[str, object]]:
    """Walk every image that the spec brings in; those of the chart are the admin's own."""
    yield "spec.engine.image", spec.engine.image
    yield "spec.router.image", spec.router.image
    for role in ROLES:
        template = f"spec.{role}.podTemplate.spec"
        for index, container in _items(spec, role, "containers"):
            if "image" in container:
                yield f"{template}.containers[{index}].image", container["image"]
        for index, volume in _items(spec, role, "volumes"):
            image = volume.get("image")
            if image is not None:
                reference = image.get("reference") if isinstance(image, dict) else image
                yield f"{template}.volumes[{index}].image.reference", reference


def _gpu_problems(spec: Spec, policy: Policy) -> Iterator[Problem]:
    if policy.max_gpus is None:
        return
    total = 0
    for role in ROLES:
        part = spec.role(role)
        each = _gpus(spec, role)
        if each is None:
            yield _refused(
                f"spec.{role}.devices.gpu",
                "is not given, and a privileged engine sees every GPU of its node: give count or "
                "visibleDevices, since the chart value policy.maxGpus bounds their number",
            )
            continue
        total += each * part.replicas
    yield from _hidden_gpus(spec)
    if total > policy.max_gpus:
        yield _refused(
            "spec",
            f"asks for {total} GPUs over all engines, and the admin allows {policy.max_gpus}: ask "
            "for fewer, or the admin raises the chart value policy.maxGpus",
        )


def _hidden_gpus(spec: Spec) -> Iterator[Problem]:
    """Find GPUs that are asked for where the bound does not count them."""
    named = {gpu.resource_name for role in ROLES if (gpu := spec.role(role).devices.gpu)}
    for where, resources in _resources(spec):
        for kind in ("limits", "requests"):
            amounts = resources.get(kind) if isinstance(resources, dict) else None
            for name in amounts if isinstance(amounts, dict) else ():
                if name in named or "gpu" in str(name).lower():
                    yield _refused(
                        f"{where}.{kind}[{name}]",
                        "GPUs are asked for in devices.gpu alone, where the chart value "
                        "policy.maxGpus counts them: remove it",
                    )


def _resources(spec: Spec) -> Iterator[tuple[str, object]]:
    """Walk everything that a container may ask for."""
    asked = [("spec.router", spec.router.resources)]
    asked += [(f"spec.{role}", spec.role(role).resources) for role in ROLES]
    for where, part in asked:
        if part is not None:
            yield f"{where}.resources", part.model_dump(exclude_none=True)
    for role in ROLES:
        for index, container in _items(spec, role, "containers"):
            where = f"spec.{role}.podTemplate.spec.containers[{index}].resources"
            yield where, container.get("resources")


def _gpus(spec: Spec, role: Role) -> int | None:
    """Count the GPUs of one engine, by its widest claim; None if it makes none."""
    part = spec.role(role)
    claims = []
    gpu = part.devices.gpu
    if gpu is not None and gpu.count is not None:
        claims.append(gpu.count)
    if gpu is not None and gpu.visible_devices is not None:
        claims.append(len(set(gpu.visible_devices.split(","))))
    return max(claims, default=None)


def _items(spec: Spec, role: Role, field: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Walk a list of a role's template, whose shape nobody has checked yet."""
    items = spec.role(role).template_spec.get(field)
    for index, item in enumerate(items if isinstance(items, list) else []):
        if isinstance(item, dict):
            yield index, item


def _path_problems(where: str, path: object, policy: Policy) -> Iterator[Problem]:
    if isinstance(path, str) and any(_below(path, p) for p in policy.host_path_prefixes):
        return
    yield _refused(
        where,
        f"{path!r} is below none of the folders that the admin allows "
        f"({', '.join(policy.host_path_prefixes) or 'none'}): use one of them, or the admin adds "
        "its prefix to the chart value policy.hostPathPrefixes",
    )


def _below(path: str, prefix: str) -> bool:
    """Return whether a path is in a folder; `..` never is, since the kubelet would follow it."""
    parts = [part for part in path.split("/") if part]
    wanted = [part for part in prefix.split("/") if part]
    return path.startswith("/") and ".." not in parts and parts[: len(wanted)] == wanted

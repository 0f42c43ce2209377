"""The admin's policy: what a user's PDDeployment may ask of a node.

Whoever may create a PDDeployment of the privileged profile is nearly root on the node, so the
admin says, in the chart's values, where that is allowed. Nothing is by default.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import ConfigDict, Field, field_validator

from moriio_operator.api.deployment import Owner
from moriio_operator.api.names import ROLES
from moriio_operator.api.schema import ApiModel
from moriio_operator.plan.problem import Problem

REASON = "RefusedByPolicy"


class Policy(ApiModel):
    """The chart values under `policy`; an unknown one is a mistake, and is refused."""

    model_config = ConfigDict(extra="forbid")

    privileged_namespaces: list[str] = Field(default_factory=list)
    host_path_prefixes: list[str] = Field(default_factory=list)

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
        yield Problem(
            REASON,
            "spec.devices.profile",
            f"namespace {owner.namespace!r} may not run privileged pods: the admin adds it to the "
            "chart value policy.privilegedNamespaces",
        )
    cache = spec.model.cache
    if cache is not None and cache.host_path is not None:
        yield from _path_problems("spec.model.cache.hostPath.path", cache.host_path.path, policy)
    for role in ROLES:
        for index, volume in _volumes(spec.role(role).pod_template):
            host_path = volume.get("hostPath")
            if host_path is not None:
                path = host_path.get("path") if isinstance(host_path, dict) else host_path
                where = f"spec.{role}.podTemplate.spec.volumes[{index}].hostPath.path"
                yield from _path_problems(where, path, policy)


def _volumes(template: dict[str, Any] | None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Walk the volumes of a template, whose shape nobody has checked yet."""
    spec = (template or {}).get("spec")
    volumes = spec.get("volumes") if isinstance(spec, dict) else None
    for index, volume in enumerate(volumes if isinstance(volumes, list) else []):
        if isinstance(volume, dict):
            yield index, volume


def _path_problems(where: str, path: object, policy: Policy) -> Iterator[Problem]:
    if isinstance(path, str) and any(_below(path, p) for p in policy.host_path_prefixes):
        return
    yield Problem(
        REASON,
        where,
        f"{path!r} is below none of the folders that the admin allows "
        f"({', '.join(policy.host_path_prefixes) or 'none'}): use one of them, or the admin adds "
        "its prefix to the chart value policy.hostPathPrefixes",
    )


def _below(path: str, prefix: str) -> bool:
    """Tell whether a path lies in a folder; `..` never does, since the kubelet would follow it."""
    parts = [part for part in path.split("/") if part]
    wanted = [part for part in prefix.split("/") if part]
    return path.startswith("/") and ".." not in parts and parts[: len(wanted)] == wanted

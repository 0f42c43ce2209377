"""A pod from contributions: each is made by one module, and `assemble` joins them.

Devices, caches, networks and credentials all add to the same lists of a pod. Laid over each other
as dictionaries, the second silently takes the place of the first; so two contributions that set
the same thing are an error. It is an error of the code, which unit tests find: what a user sets is
combined within one contribution, or merged over the assembled pod.

Fields and items stand in the order in which they are contributed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from moriio_operator.build.merge import CollisionError, joined

Json: TypeAlias = dict[str, Any]

# The security context of the operator's own containers: no right that they do not use.
RESTRICTED: Json = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


@dataclass(frozen=True, slots=True)
class ContainerPatch:
    """What a contribution adds to the pod's main container."""

    # Whatever is no list of named things: the image, probes, the security context.
    fields: Mapping[str, Any] = field(default_factory=dict)
    args: Sequence[str] = ()
    env: Sequence[Json] = ()
    ports: Sequence[Json] = ()
    mounts: Sequence[Json] = ()
    # By kind (requests, limits), then by the name of the resource.
    resources: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one module adds to a pod; `source` names it in an error."""

    source: str
    # Fields of the pod's spec that are no list of named things.
    fields: Mapping[str, Any] = field(default_factory=dict)
    init_containers: Sequence[Json] = ()
    main: ContainerPatch = ContainerPatch()
    containers: Sequence[Json] = ()
    volumes: Sequence[Json] = ()
    # The main container gets each of them.
    resource_claims: Sequence[Json] = ()
    # Terms that the node of the pod must satisfy.
    pod_affinity: Sequence[Json] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


def assemble(main: str, contributions: Iterable[Contribution]) -> Json:
    """Join contributions to a pod template; `main` is the name of the pod's main container.

    Raises:
        CollisionError: two contributions set the same field, or the same item of a list.
    """
    made: Json = {"metadata": {}, "spec": {}}
    for contribution in contributions:
        try:
            made = joined(made, _template(main, contribution))
        except CollisionError as error:
            text = f"{contribution.source} sets {error}, which another contribution sets, too"
            raise CollisionError(text) from None
    return made


def _template(main: str, given: Contribution) -> Json:
    """Give a contribution as the part of a pod template that it is."""
    container = _container(given.main, given.resource_claims)
    containers = [{"name": main, **container}] if container else []
    metadata = {"labels": dict(given.labels), "annotations": dict(given.annotations)}
    spec = {
        "initContainers": list(given.init_containers),
        "containers": [*containers, *given.containers],
        "volumes": list(given.volumes),
        "resourceClaims": list(given.resource_claims),
        "affinity": _affinity(given.pod_affinity),
    }
    return {"metadata": _present(metadata), "spec": joined(dict(given.fields), _present(spec))}


def _container(patch: ContainerPatch, claims: Sequence[Json]) -> Json:
    resources = _present({kind: dict(amounts) for kind, amounts in patch.resources.items()})
    if claims:
        resources["claims"] = [{"name": claim["name"]} for claim in claims]
    lists = {
        "args": list(patch.args),
        "env": list(patch.env),
        "ports": list(patch.ports),
        "volumeMounts": list(patch.mounts),
        "resources": resources,
    }
    made: Json = joined(dict(patch.fields), _present(lists))
    return made


def _affinity(terms: Sequence[Json]) -> Json:
    if not terms:
        return {}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def _present(fields: Json) -> Json:
    return {name: value for name, value in fields.items() if value}

"""From a rendered template to the pod of one engine incarnation: a name, an owner, port numbers.

This is all that a later operator does with a template that an earlier one rendered, so it knows
nothing of any stack: the template's own port entries say how a block is laid out. Which numbers an
engine was given is written on its pod, to be read back whatever its ports are called.
"""

from __future__ import annotations

import copy
from typing import Any

from moriio_operator.api import names
from moriio_operator.api.deployment import Owner
from moriio_operator.api.ports import PortBlock, placeholder
from moriio_operator.build.metadata import metadata

# The number in a template that stands for the first port of a block; 0 is no port in Kubernetes.
FIRST_PORT = 1


def port_names(template: dict[str, Any]) -> list[str]:
    """Give the names of an engine's ports, in the order of their numbers."""
    ports = sorted(_engine(template).get("ports") or [], key=lambda port: port["containerPort"])
    return [port["name"] for port in ports]


def block_size(template: dict[str, Any]) -> int:
    """Give the number of ports that an engine of this template takes."""
    ports = _engine(template).get("ports") or []
    return max((int(port["containerPort"]) for port in ports), default=0) + 1 - FIRST_PORT


def engine_pod_of(owner: Owner, name: str, template: dict[str, Any], base: int) -> dict[str, Any]:
    """Build the pod of one engine, whose block begins at port `base`."""
    given = template["metadata"]
    block = PortBlock(base, block_size(template))
    annotations = {**(given.get("annotations") or {}), names.ANNOTATION_PORTS: str(block)}
    made: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata(owner, name, given.get("labels"), annotations),
        "spec": copy.deepcopy(template["spec"]),
    }
    engine = _engine(made)
    numbers: dict[str, int] = {}
    for port in engine.get("ports") or []:
        for field in ("containerPort", "hostPort"):
            if field in port:
                port[field] += base - FIRST_PORT
        numbers[placeholder(port["name"])] = port["containerPort"]
    for container in (engine, *_own_init_containers(made)):
        container["args"] = [_filled(argument, numbers) for argument in container.get("args") or []]
    return made


def _engine(template: dict[str, Any]) -> dict[str, Any]:
    containers: list[dict[str, Any]] = template["spec"]["containers"]
    return next(c for c in containers if c["name"] == names.CONTAINER_ENGINE)


def _own_init_containers(template: dict[str, Any]) -> list[dict[str, Any]]:
    """Give those that the operator put there: a podTemplate may bring none."""
    containers: list[dict[str, Any]] = template["spec"].get("initContainers") or []
    return containers


def _filled(argument: str, numbers: dict[str, int]) -> str:
    for text, number in numbers.items():
        argument = argument.replace(text, str(number))
    return argument

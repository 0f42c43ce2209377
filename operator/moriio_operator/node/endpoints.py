"""Engines from EndpointSlices: who serves, at which address and ports.

A slice carries the port numbers that the pods of it gave to the names, and the state of each
endpoint. `ready` is always true here (the Services publish not-ready addresses), so `serving`
and `terminating` decide. Engines are keyed by the pod's uid: one that moves between slices for a
moment, while the controller rewrites them, stands in two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from moriio_operator.facts.terms import Mode, Role
from moriio_operator.stack.registration import Endpoint, Registration
from moriio_operator.stack.stack import Stack
from moriio_operator.stack.table import DEFAULT

SERVICE_LABEL = "kubernetes.io/service-name"


@dataclass(frozen=True, slots=True)
class RoleService:
    """The headless Service of a role, and what its engines have in common."""

    role: Role
    tensor: int
    data: int = 1
    stack: Stack = DEFAULT


def selector(services: Iterable[str]) -> str:
    """Select the EndpointSlices of these Services, by label."""
    return f"{SERVICE_LABEL} in ({','.join(sorted(services))})"


def present(slices: Iterable[dict[str, Any]]) -> set[str]:
    """Give the uids of all pods in the slices, whether they serve or not."""
    uids = {
        (endpoint.get("targetRef") or {}).get("uid")
        for piece in slices
        for endpoint in piece.get("endpoints") or []
    }
    return {uid for uid in uids if uid}


def serving(
    slices: Iterable[dict[str, Any]], services: Mapping[str, RoleService], mode: Mode
) -> dict[str, Registration]:
    """Give the registrations of all engines that serve, by pod uid."""
    found: dict[str, Registration] = {}
    for piece in slices:
        service = services.get(piece["metadata"]["labels"].get(SERVICE_LABEL, ""))
        named = ((port.get("name"), port.get("port")) for port in piece.get("ports") or [])
        ports = {name: number for name, number in named if name and number}
        # All of it is IPv4: the wire format has no brackets for anything else.
        if piece.get("addressType") != "IPv4" or service is None:
            continue
        for endpoint in piece.get("endpoints") or []:
            uid = (endpoint.get("targetRef") or {}).get("uid")
            if uid and endpoint.get("addresses") and _serves(endpoint.get("conditions") or {}):
                host = endpoint["addresses"][0]
                engine = Endpoint(service.role, mode, host, ports, service.tensor, service.data)
                registration = service.stack.registration(engine)
                if registration is not None:
                    found[uid] = registration
    return found


def _serves(conditions: dict[str, Any]) -> bool:
    return bool(conditions.get("serving")) and not conditions.get("terminating")

"""The range that a deployment's ports come from: the operator's, or a part of it."""

from __future__ import annotations

from collections.abc import Iterator

from moriio_operator.api.network import Network
from moriio_operator.api.ports import PortRange
from moriio_operator.api.problem import Problem
from moriio_operator.api.reasons import Reason


def port_range(network: Network, operators: PortRange) -> PortRange:
    """Give the range; one that the admin took back since then is not used any more."""
    asked = _asked(network)
    return asked if asked is not None and operators.holds(asked) else operators


def problems(network: Network, operators: PortRange) -> Iterator[Problem]:
    """Check the range that a user asks for against the admin's."""
    asked = _asked(network)
    if asked is not None and not operators.holds(asked):
        yield Problem(
            Reason.REFUSED_BY_POLICY,
            "spec.network.portRange",
            f"{asked} is not within the operator's range {operators}: use a part of that, or the "
            "admin widens the chart value ports",
        )


def remedy(network: Network) -> str:
    """Tell who can make more room for ports, and where."""
    if network.port_range is None:
        return "the admin widens the chart value ports"
    return "widen spec.network.portRange"


def _asked(network: Network) -> PortRange | None:
    given = network.port_range
    return None if given is None else PortRange(given.start, given.end)

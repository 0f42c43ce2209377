"""The comparisons, one a part of the contract."""

from oracle.release import Rule
from oracle.rules import (
    addresses,
    commandline,
    keys,
    layers,
    ports,
    settings,
    signatures,
    timeouts,
    topology,
)

RULES: dict[str, Rule] = {
    "addresses": addresses.differences,
    "commandline": commandline.differences,
    "keys": keys.differences,
    "layers": layers.differences,
    "ports": ports.differences,
    "settings": settings.differences,
    "signatures": signatures.differences,
    "timeouts": timeouts.differences,
    "topology": topology.differences,
}

__all__ = ["RULES"]

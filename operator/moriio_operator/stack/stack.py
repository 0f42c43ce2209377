"""What the operator asks of a stack: an engine, and the connector that carries its KV cache.

A stack is one object without state, chosen once by what the spec says (`table`). It renders an
engine's command line and says how its ports are laid out, how it is probed and stopped, what its
versions cannot do, what its last words stand for, and how the router gets to know of it. A method
without an implementation here is what every stack must say.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from moriio_operator.api.deployment import Spec
from moriio_operator.api.engine import EngineRole
from moriio_operator.api.model import SecretKeyRef
from moriio_operator.api.problem import Problem
from moriio_operator.facts.signatures import Signature
from moriio_operator.facts.terms import Role
from moriio_operator.facts.versions import Version
from moriio_operator.stack.registration import Endpoint, Registration


@dataclass(frozen=True, slots=True)
class Assessment:
    """What is known about a spec: whose rules hold, what breaks them, what was not checked."""

    version: Version
    # Whose version that is, as messages name it.
    engine: str = "vLLM"
    # It is older than the oldest version with rules, or newer than the newest.
    too_old: bool = False
    newer: bool = False
    # Its version is not declared at all.
    unknown: bool = False
    problems: tuple[Problem, ...] = ()
    unchecked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Health:
    """Where an engine answers health checks over HTTP."""

    port: str
    path: str


class Stack(ABC):
    """An engine and its connector."""

    # Whether routers need the registrar beside them, since engines do not register themselves.
    needs_registrar: bool = True
    # Variables that hold the pod's own address; they stand before all others, which may use them.
    address_variables: tuple[str, ...] = ()

    @property
    @abstractmethod
    def health(self) -> Health:
        """Where all probes ask."""

    @abstractmethod
    def ports(self, engine: EngineRole) -> Mapping[str, int]:
        """Give every port of an engine's block by name, as an offset from the block's first port.

        Offsets leave no gap, and a name has at most 15 characters, as Kubernetes wants.
        """

    @abstractmethod
    def arguments(self, spec: Spec, role: Role) -> list[str]:
        """Give the arguments of an engine, with `placeholder` for port numbers."""

    @abstractmethod
    def grace_seconds(self, spec: Spec, role: Role) -> int:
        """How long a stopping engine may take in all (terminationGracePeriodSeconds)."""

    @abstractmethod
    def pre_stop_seconds(self) -> int:
        """How long a stopping engine waits before SIGTERM, until no router sends it more."""

    @abstractmethod
    def router_arguments(self) -> list[str]:
        """Give the arguments by which the router speaks to engines of this stack."""

    def environment(self, spec: Spec, role: Role) -> dict[str, str]:  # noqa: ARG002
        """Give the variables that hold for every engine of a role."""
        return {}

    def secrets(self, spec: Spec) -> dict[str, SecretKeyRef]:  # noqa: ARG002
        """Give the variables whose value is in a Secret."""
        return {}

    def assess(self, spec: Spec) -> Assessment:
        """Hold a spec against what the stack of its version can do."""
        return Assessment(spec.engine.ruling_version)

    def recognise(self, text: str) -> Signature | None:  # noqa: ARG002
        """Find what the end of an engine's log stands for."""
        return None

    def registration(self, engine: Endpoint) -> Registration | None:  # noqa: ARG002
        """Say what the registrar sends to the router; None if the engine lacks a port for it."""
        return None

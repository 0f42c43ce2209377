"""A second stack, in the tests alone: the engine of images/engine-stub with two ports.

It shows the seam: it shares no flag, port name, number of ports, last words or registration with
vLLM and MoRIIO, and nothing outside of this module knows it.
"""

from __future__ import annotations

from collections.abc import Mapping

from moriio_operator.api.deployment import Spec
from moriio_operator.api.engine import EngineRole
from moriio_operator.api.ports import placeholder
from moriio_operator.api.problem import Problem
from moriio_operator.facts.signatures import Signature
from moriio_operator.facts.terms import Mode, Role
from moriio_operator.stack.registration import Endpoint, Registration
from moriio_operator.stack.stack import Assessment, Health, Stack

TYPE = "Stub"
API, PEER = "api", "peer"
_LOST = Signature("peer lost", "PeerLost", "look at the peer", "images/engine-stub")


class StubStack(Stack):
    """The stub, whose router is told of its engines by somebody else."""

    needs_registrar = False

    @property
    def health(self) -> Health:
        return Health(API, "/health")

    def ports(self, engine: EngineRole) -> Mapping[str, int]:  # noqa: ARG002
        return {API: 0, PEER: 1}

    def arguments(self, spec: Spec, role: Role) -> list[str]:
        ours = ["--port", placeholder(API), "--peer-port", placeholder(PEER)]
        return [*ours, *spec.role(role).args]

    def environment(self, spec: Spec, role: Role) -> dict[str, str]:
        return {"STUB_MODEL": spec.model.name, "STUB_ROLE": role.value}

    def pre_stop_seconds(self) -> int:
        return 1

    def grace_seconds(self, spec: Spec, role: Role) -> int:  # noqa: ARG002
        return 2 + spec.rollout.drain_timeout_seconds

    def router_arguments(self) -> list[str]:
        return ["--engines", "static"]

    def assess(self, spec: Spec) -> Assessment:
        refused = Problem("StubReads", "spec.connector.mode", "the stub reads only: use Read")
        problems = () if spec.connector.mode is Mode.READ else (refused,)
        return Assessment(spec.engine.ruling_version, engine="stub", problems=problems)

    def recognise(self, text: str) -> Signature | None:
        return _LOST if _LOST.fragment in text else None


class RegisteredStub(StubStack):
    """The stub with a registrar beside its routers, and an address of its own."""

    needs_registrar = True

    def registration(self, engine: Endpoint) -> Registration | None:
        if PEER not in engine.ports:
            return None
        return Registration(
            type=engine.role.value,
            http_address=f"{engine.host}:{engine.ports[API]}",
            zmq_address=f"peer:{engine.host}:{engine.ports[PEER]}",
            dp_size=engine.data,
            tp_size=engine.tensor,
            transfer_mode=engine.mode.value,
        )

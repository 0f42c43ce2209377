"""vLLM with its MoRIIOConnector, as the operator asks a stack."""

from __future__ import annotations

from collections.abc import Mapping

from moriio_operator.api import names
from moriio_operator.api.deployment import Spec
from moriio_operator.api.engine import EngineRole
from moriio_operator.api.model import SecretKeyRef
from moriio_operator.facts import router, signatures
from moriio_operator.facts.signatures import Signature
from moriio_operator.facts.terms import Role
from moriio_operator.stack.registration import Endpoint, Registration
from moriio_operator.stack.stack import Assessment, Health, Stack
from moriio_operator.stack.vllm_moriio import command_line, compatibility, ports, registration
from moriio_operator.stack.vllm_moriio.connector import POD_IP


class VllmMoriio(Stack):
    """vLLM and MoRIIO behind vllm-router."""

    # vLLM takes the first address that it finds for its own, unless it is given one.
    address_variables = (POD_IP, "VLLM_HOST_IP")

    @property
    def health(self) -> Health:
        """Where all probes ask."""
        return Health(ports.HTTP, command_line.HEALTH_PATH)

    def ports(self, engine: EngineRole) -> Mapping[str, int]:
        """Give the layout of an engine's block: one handshake and one notify port per rank."""
        return ports.layout(engine.parallelism.ranks)

    def arguments(self, spec: Spec, role: Role) -> list[str]:
        """Give the arguments of `vllm serve`."""
        return command_line.arguments(spec, role, spec.engine.ruling_version)

    def environment(self, spec: Spec, role: Role) -> dict[str, str]:
        """Give the variables that hold for every engine of a role."""
        return command_line.environment(spec, role, spec.engine.ruling_version)

    def secrets(self, spec: Spec) -> dict[str, SecretKeyRef]:
        """Give the hub's token and the key that the engine asks of its callers."""
        references = {
            names.HUB_TOKEN: spec.model.token_secret_key_ref,
            names.ENGINE_API_KEY: spec.engine.api_key_secret_key_ref,
        }
        return {name: reference for name, reference in references.items() if reference is not None}

    def pre_stop_seconds(self) -> int:
        """How long the router may still send requests to an engine that stops."""
        return command_line.pre_stop_seconds()

    def grace_seconds(self, spec: Spec, role: Role) -> int:
        """How long a stopping engine may take in all."""
        return command_line.grace_seconds(spec, role)

    def router_arguments(self) -> list[str]:
        """Let the router discover engines of MoRIIO by what the registrar sends."""
        return router.discovery("moriio")

    def assess(self, spec: Spec) -> Assessment:
        """Hold a spec against the contract of its version of vLLM."""
        return compatibility.assess(spec)

    def recognise(self, text: str) -> Signature | None:
        """Find what the end of vLLM's log stands for."""
        return signatures.recognise(text)

    def registration(self, engine: Endpoint) -> Registration | None:
        """Say what vLLM's own heartbeat would."""
        return registration.of_endpoint(engine)

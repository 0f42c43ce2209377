"""The table of stacks, by `spec.connector.type`.

A new stack is a folder beside this module, a line in the table and a name in `terms.Connector`,
which the CRD offers.
"""

from __future__ import annotations

from moriio_operator.api.deployment import Spec
from moriio_operator.api.problem import Problem
from moriio_operator.api.reasons import Reason
from moriio_operator.facts.terms import ConnectorType
from moriio_operator.stack.stack import Assessment, Stack
from moriio_operator.stack.vllm_moriio.stack import VllmMoriio

# What a PDDeployment of any version that had no choice stands for.
DEFAULT: Stack = VllmMoriio()
STACKS: dict[str, Stack] = {ConnectorType.MORIIO.value: DEFAULT}


class _Unknown(VllmMoriio):
    """What an unknown type is taken for: nothing new is rendered, and what runs is the default's.

    An older operator may meet it after a downgrade.
    """

    def assess(self, spec: Spec) -> Assessment:
        """Refuse the spec."""
        path, given = "spec.connector.type", spec.connector.type
        known = " or ".join(STACKS)
        text = f"{given!r} is not known to this version of the operator: use {known}, or upgrade it"
        note = f"{path} is {given!r}: nothing is known of it, so nothing is checked"
        version = spec.engine.ruling_version
        return Assessment(
            version,
            problems=(Problem(Reason.CONNECTOR_UNSUPPORTED, path, text),),
            unchecked=(note,),
        )


def of(spec: Spec) -> Stack:
    """Choose the stack of a spec; an unknown one refuses it when asked to assess it."""
    return named(spec.connector.type)


def named(connector: str) -> Stack:
    """Choose the stack of a type of connector."""
    return STACKS.get(connector) or _Unknown()

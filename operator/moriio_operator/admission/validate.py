"""All that can be wrong with a PDDeployment and is known without acting.

The admin's policy, the range of ports, the contract of its stack, and the templates.

What one object decides is refused at admission by the CRD's CEL rules; this is the rest.
"""

from __future__ import annotations

from moriio_operator.admission import network
from moriio_operator.admission import pod_template as templates
from moriio_operator.admission import policy as admin
from moriio_operator.api.deployment import Owner
from moriio_operator.api.network import NetworkMode
from moriio_operator.api.ports import PortRange
from moriio_operator.api.problem import Problem
from moriio_operator.facts.terms import ROLES
from moriio_operator.stack import table as stacks


def problems(owner: Owner, policy: admin.Policy, ports: PortRange) -> list[Problem]:
    """Give every problem, not only the first: a user fixes them in one go."""
    found = list(admin.problems(owner, policy))
    found += network.problems(owner.spec.network, ports)
    found += stacks.of(owner.spec).assess(owner.spec).problems
    for role in ROLES:
        pod_template = owner.spec.role(role).pod_template
        found += templates.problems(pod_template, f"spec.{role}.podTemplate")
        if owner.spec.network.mode is NetworkMode.HOST:
            found += templates.host_problems(pod_template, f"spec.{role}.podTemplate")
    return found

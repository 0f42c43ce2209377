"""All that can be wrong with a PDDeployment and is known without acting.

The admin's policy, the range of ports, vLLM's contract, and the templates.

What one object decides is refused at admission by the CRD's CEL rules; this is the rest.
"""

from __future__ import annotations

from moriio_operator.api.deployment import Owner
from moriio_operator.api.names import ROLES
from moriio_operator.api.network import NetworkMode
from moriio_operator.plan import compatibility, network, template
from moriio_operator.plan import policy as admin
from moriio_operator.plan.ports import PortRange
from moriio_operator.plan.problem import Problem


def problems(owner: Owner, policy: admin.Policy, ports: PortRange) -> list[Problem]:
    """Give every problem, not only the first: a user mends them in one go."""
    found = list(admin.problems(owner, policy))
    found += network.problems(owner.spec.network, ports)
    found += compatibility.assess(owner.spec).problems
    for role in ROLES:
        pod_template = owner.spec.role(role).pod_template
        found += template.problems(pod_template, f"spec.{role}.podTemplate")
        if owner.spec.network.mode is NetworkMode.HOST:
            found += template.host_problems(pod_template, f"spec.{role}.podTemplate")
    return found

"""All that can be wrong with a PDDeployment and is known without acting: policy and templates.

What one object decides is refused at admission by the CRD's CEL rules; this is the rest.
"""

from __future__ import annotations

from moriio_operator.api.deployment import Owner
from moriio_operator.api.names import ROLES
from moriio_operator.plan import policy as admin
from moriio_operator.plan import template
from moriio_operator.plan.problem import Problem


def problems(owner: Owner, policy: admin.Policy) -> list[Problem]:
    """Give every problem, not only the first: a user mends them in one go."""
    found = list(admin.problems(owner, policy))
    for role in ROLES:
        pod_template = owner.spec.role(role).pod_template
        found += template.problems(pod_template, f"spec.{role}.podTemplate")
    return found

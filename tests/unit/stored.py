"""PDDeployments as a version stores them: `python -m unit.stored VERSION`, once a release.

Two stand for all, as in `rendered`: one of what is required, one of every field. Their status is
what the operator writes when they serve.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import yaml
from moriio_operator.admission.policy import Policy
from moriio_operator.api.deployment import Owner
from moriio_operator.plan.revision import router_revision

from unit.memory_kube import MemoryKube
from unit.played import Operator
from unit.samples import FULL, MINIMAL, POLICY, Json, resource

FOLDER = Path(__file__).with_name("golden") / "stored"
_SECRETS: Json = {
    "model": {"tokenSecretKeyRef": {"name": "hub", "key": "token"}},
    "engine": {"apiKeySecretKeyRef": {"name": "api", "key": "key"}},
}


async def stored(spec: Json) -> Json:
    """Give the object once it serves."""
    policy = Policy(
        privileged_namespaces=POLICY.privileged_namespaces,
        host_path_prefixes=POLICY.host_path_prefixes,
    )
    operator = Operator(MemoryKube(resource(spec)), policy)
    await operator.settle()
    made = operator.kube.one("PDDeployment", "llm")
    spec_revision = router_revision(Owner.from_object(made).spec)
    made["metadata"]["annotations"] = {"router-revision": spec_revision}
    del made["metadata"]["resourceVersion"]
    return made


def within(part: Any, whole: Any) -> bool:
    """Return whether everything of a part is in the whole, which may have grown defaults."""
    if isinstance(part, dict):
        return all(key in whole and within(value, whole[key]) for key, value in part.items())
    if isinstance(part, list):
        return len(part) == len(whole) and all(map(within, part, whole))
    return bool(part == whole)


def main(version: str) -> None:
    """Write the files of a version."""
    FOLDER.mkdir(exist_ok=True)
    everything = {**FULL, **{k: {**FULL[k], **_SECRETS[k]} for k in _SECRETS}}
    for name, spec in (("minimal", MINIMAL), ("full", everything)):
        text = yaml.safe_dump(asyncio.run(stored(spec)), sort_keys=False, width=100)
        (FOLDER / f"{version}-{name}.yaml").write_text(text)


if __name__ == "__main__":
    main(sys.argv[1])

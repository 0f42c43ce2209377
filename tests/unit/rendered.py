"""What the builders make of a PDDeployment, as YAML for review (`python -m unit.rendered`).

Three PDDeployments stand for all: one with nothing but what is required, one with every field, and
one on the host network.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from moriio_operator.api import names
from moriio_operator.facts.terms import ROLES
from moriio_operator.plan.revision import revision
from moriio_operator.stack.vllm_moriio.ports import layout

from unit.samples import FULL, HOST, MINIMAL, Json, children_of, engine_pod, owner

FOLDER = Path(__file__).with_name("golden")
SPECS: dict[str, Json] = {"minimal": MINIMAL, "full": FULL, "host": HOST}


class _Dumper(yaml.SafeDumper):
    """Every value is written out, and lists are indented as people write them."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002
        super().increase_indent(flow, indentless=False)


def objects(name: str) -> list[Json]:
    """All children and one engine a role."""
    whose = owner({}, base=SPECS[name])
    made = revision(whose.spec)
    found = children_of(whose, made)
    cursor = 0
    for role in ROLES:
        pod = names.engine_pod(whose.name, role, cursor)
        found.append(engine_pod(whose, pod, role, made, 20_000 + cursor))
        cursor += len(layout(whose.spec.role(role).parallelism.ranks))
    return found


def render(name: str) -> str:
    """The file's text."""
    return yaml.dump_all(objects(name), Dumper=_Dumper, sort_keys=False, width=100)


if __name__ == "__main__":
    for each in SPECS:
        (FOLDER / f"{each}.yaml").write_text(render(each))

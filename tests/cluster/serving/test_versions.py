"""What another version stored or its schema knows, and the operator and API server of this one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from bed.cluster import Bed
from bed.command import wait_until
from stage.deployments import stub
from stage.service import Service
from unit.stored import FOLDER, within

QUICK_S = 90


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_what_a_released_version_stored_is_still_taken_as_it_is(
    operator: Bed, new_namespace: Callable[[], str], file: Path
) -> None:
    name = new_namespace()
    stored = yaml.safe_load(file.read_text())
    wish = {**stored, "metadata": {"name": stored["metadata"]["name"], "namespace": name}}
    apply = ("apply", "--dry-run=server", "--validate=strict", "-o", "json", "-f", "-")
    taken = json.loads(operator.kubectl(*apply, input=json.dumps(wish)))
    assert within(stored["spec"], taken["spec"])


def test_fields_of_a_newer_schema_do_not_stop_an_older_operator(
    operator: Bed, new_namespace: Callable[[], str]
) -> None:
    schema = "/spec/versions/0/schema/openAPIV3Schema/properties"
    later = {"type": "string"}
    add: list[dict[str, Any]] = [
        {"op": "add", "path": f"{schema}/spec/properties/model/properties/later", "value": later},
        {"op": "add", "path": f"{schema}/status/properties/later", "value": later},
    ]
    crd = ("crd", "pddeployments.moriio.dev")
    operator.kubectl("patch", *crd, "--type=json", "-p", json.dumps(add))
    name = new_namespace()
    manifest = stub(name)
    manifest["spec"]["model"]["later"] = "x"

    def taken() -> bool:
        # The API server serves a changed schema a moment later.
        apply = ("apply", "--dry-run=server", "--validate=strict", "-f", "-")
        return bool(operator.kubectl(*apply, input=json.dumps(manifest), check=False))

    wait_until(taken, timeout_s=30, what="the newer schema to be served")
    try:
        made = Service.apply(operator, manifest)
        made.wait_settled(QUICK_S)
        told = json.dumps({"status": {"later": "y"}})
        operator.kubectl(
            *("-n", name, "patch", "pdd", "stub", "--subresource=status"),
            *("--type=merge", "-p", told),
        )
        made.patch(decode={"replicas": 2})
        made.wait_condition("Progressing", "False", "Settled", QUICK_S)
        assert len(made.pods("decode")) == 2
        assert made.object()["spec"]["model"]["later"] == "x"
        made.delete()
        wait_until(lambda: made.pods() == [], timeout_s=QUICK_S, what="its engines to go")
    finally:
        remove = [{"op": "remove", "path": step["path"]} for step in add]
        operator.kubectl("patch", *crd, "--type=json", "-p", json.dumps(remove))

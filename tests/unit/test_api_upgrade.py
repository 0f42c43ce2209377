"""An upgrade from an earlier release restarts nothing: it takes over what that release left.

The files hold every object of a PDDeployment that served, as the operator of that release wrote
them over the API in memory.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from moriio_operator.api.deployment import Owner
from moriio_operator.api.model import ONE_CONFIG_RULE, ModelConfig
from pydantic.alias_generators import to_camel

from unit.memory_kube import MemoryKube
from unit.passes import living
from unit.played import Operator
from unit.samples import Json

FOLDER = Path(__file__).with_name("golden") / "upgrade"
FILES = sorted(FOLDER.glob("*.yaml"))


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def left(request: pytest.FixtureRequest) -> list[Json]:
    """All objects that a release left."""
    return list(yaml.safe_load_all(request.param.read_text()))


def taken_over(left: list[Json]) -> Operator:
    return Operator(MemoryKube(*left))


async def test_no_engine_and_no_router_is_written(left: list[Json]) -> None:
    operator = taken_over(left)
    await operator.settle()
    written = {write.split()[1] for write in operator.kube.writes}
    assert written <= {"PDDeployment", "Event"}
    assert operator.condition("Ready").status == "True"


async def test_what_it_had_given_out_is_known_under_the_new_names(left: list[Json]) -> None:
    operator = taken_over(left)
    [before] = [obj["status"] for obj in left if obj["kind"] == "PDDeployment"]
    await operator.settle()
    now = operator.kube.one("PDDeployment", "llm")["status"]
    assert now["portAllocation"]["cursor"] == before["portCursor"]
    assert not {"portCursor", "retiredPorts"} & now.keys()
    assert {role["desired"] for role in now["roles"]} == {
        role["desired"] for role in before["roles"]
    }


async def test_an_engine_that_ends_is_replaced_by_one_like_it(left: list[Json]) -> None:
    operator = taken_over(left)
    victim = operator.kube.of_kind("Pod")[0]
    operator.kube.remove("Pod", victim["metadata"]["name"])
    count = len(living(operator))
    await operator.settle()
    assert len(living(operator)) == count + 1
    [new] = [
        pod for pod in operator.kube.of_kind("Pod") if "moriio.dev/ports" in pod_annotations(pod)
    ]
    role = "moriio.dev/role"
    assert new["metadata"]["labels"][role] == victim["metadata"]["labels"][role]
    assert without_numbers(new) == without_numbers(victim)


def pod_annotations(pod: Json) -> Json:
    found: Json = pod["metadata"].get("annotations") or {}
    return found


def without_numbers(pod: Json) -> Json:
    """An engine's container, as far as no port number stands in it."""
    container = pod["spec"]["containers"][0]
    return {key: value for key, value in container.items() if key not in ("args", "ports")}


def test_the_old_name_of_the_models_config_is_read() -> None:
    [full] = [file for file in FILES if file.stem.endswith("full")]
    objects = list(yaml.safe_load_all(full.read_text()))
    [resource] = [obj for obj in objects if obj["kind"] == "PDDeployment"]
    assert "config" not in resource["spec"]["model"]
    model = Owner.from_object(resource).spec.model
    assert model.known_config.kv_heads == resource["spec"]["model"]["facts"]["kvHeads"] == 8


def test_every_field_of_the_models_config_is_in_the_rule_that_one_name_is_used() -> None:
    fields = {to_camel(name) for name in ModelConfig.model_fields}
    assert all(f"has(self.config.{field})" in ONE_CONFIG_RULE["rule"] for field in fields)

"""A stack is chosen by the type of the connector; an unknown one is a problem, and no crash."""

from __future__ import annotations

import pytest
from moriio_operator.admission.validate import problems
from moriio_operator.api.crd import DEPLOYMENT, definition
from moriio_operator.plan.revision import revision, router_revision
from moriio_operator.stack import table
from moriio_operator.stack.vllm_moriio.stack import VllmMoriio

from unit import passes
from unit.samples import FULL, HOST, MINIMAL, POLICY, PORTS, Json, owner, spec


def test_without_a_type_it_is_vllm_with_moriio() -> None:
    assert isinstance(table.of(spec()), VllmMoriio)
    assert table.of(spec()) is table.of(spec({"connector": {"type": "MoRIIO"}})) is table.DEFAULT


def test_the_api_server_offers_what_is_in_the_table() -> None:
    schema = definition(DEPLOYMENT)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    connector = schema["properties"]["spec"]["properties"]["connector"]
    offered = connector["properties"]["type"]
    assert offered["enum"] == list(table.STACKS)
    assert offered["default"] == "MoRIIO"
    assert "type" not in connector["required"]


@pytest.mark.parametrize("base", [MINIMAL, FULL, HOST], ids=["minimal", "full", "host"])
def test_the_default_written_out_restarts_nobody(base: Json) -> None:
    # As the API server stores it once the CRD has the default.
    before, after = spec({}, base), spec({"connector": {"type": "MoRIIO"}}, base)
    assert "type" not in base["connector"]
    assert revision(after) == revision(before)
    assert router_revision(after) == router_revision(before)


def test_another_type_is_another_revision() -> None:
    assert revision(spec({"connector": {"type": "Other"}})) != revision(spec())


def test_an_unknown_type_is_read_and_refused_with_what_to_do() -> None:
    whose = owner({"connector": {"type": "Other"}})
    [problem] = problems(whose, POLICY, PORTS)
    assert (problem.reason, problem.path) == ("ConnectorUnsupported", "spec.connector.type")
    assert problem.text == (
        "'Other' is not known to this version of the operator: use MoRIIO, or upgrade it"
    )


async def test_what_runs_goes_on_while_an_unknown_type_is_asked_for() -> None:
    operator = await passes.serving()
    before = operator.pods()
    operator.change({"connector": {"type": "Other"}})
    await operator.settle()
    assert operator.pods() == before
    assert operator.condition("Accepted").reason == "ConnectorUnsupported"
    assert operator.condition("Ready").status == "True"
    assert operator.condition("ContractChecked").status == "Unknown"
    passes.dies(operator, "llm-decode-4")
    await operator.settle()
    assert passes.living(operator) == ["llm-decode-8", "llm-prefill-0"]

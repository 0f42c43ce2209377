"""What we render, read by a real vLLM: its parser, its configuration, its MoRIIO connector."""

from __future__ import annotations

from typing import Any

import pytest
from moriio_operator.facts.terms import Mode, Role
from moriio_operator.stack.vllm_moriio.ports import HANDSHAKE, HTTP, NOTIFY

from oracle import engine
from oracle.ask import Answer
from oracle.spread import HOST, Case, cases

pytestmark = pytest.mark.load(2)

CASES = list(cases(engine.version()))
KV_ROLES = {Role.PREFILL: "kv_producer", Role.DECODE: "kv_consumer"}


@pytest.fixture(scope="module")
def answers() -> dict[str, Answer]:
    return dict(zip((case.name for case in CASES), engine.read(CASES), strict=True))


def expected(case: Case) -> dict[str, Any]:
    parallelism, model = case.spec.role(case.role).parallelism, case.spec.model
    return {
        "kv_connector": "MoRIIOConnector",
        "kv_role": KV_ROLES[case.role],
        "kv_load_failure_policy": "fail",
        "model": model.name,
        "served_name": model.served_name,
        "tensor": parallelism.tensor,
        "data": parallelism.data_local,
        "data_local": parallelism.data_local,
        "expert": parallelism.expert == "Enabled",
        "shutdown_timeout": case.spec.rollout.drain_timeout_seconds,
        "host": "0.0.0.0",
        "port": case.ports[HTTP],
    }


def connector(case: Case) -> dict[str, Any]:
    asked = case.spec.connector
    return {
        "local_ip": HOST,
        "proxy_ip": "",
        "http_port": case.ports[HTTP],
        "handshake_port": case.ports[HANDSHAKE],
        "notify_port": case.ports[NOTIFY],
        "read_mode": asked.mode is Mode.READ,
        "backend": asked.backend.value.lower(),
        "qp_per_transfer": asked.qp_per_transfer,
        "post_batch_size": asked.post_batch_size,
        "num_workers": asked.workers,
        "transfer_timeout": asked.transfer_timeout_seconds,
        "defer_timeout": asked.defer_timeout_seconds,
        "recv_abort_timeout": asked.receive_abort_timeout_seconds,
    }


def test_the_spread_has_both_modes_and_more_than_one_rank() -> None:
    assert {case.spec.connector.mode for case in CASES} == set(Mode)
    assert max(case.spec.prefill.parallelism.tensor for case in CASES) > 1
    assert max(case.spec.prefill.parallelism.data_local for case in CASES) > 1


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_vllm_reads_what_the_service_asks_for(case: Case, answers: dict[str, Answer]) -> None:
    answer = answers[case.name]
    assert answer.raised is None
    read = answer.value
    assert {name: read[name] for name in expected(case)} == expected(case)
    assert {name: read["connector"][name] for name in connector(case)} == connector(case)


def test_prefix_caching_is_what_the_arguments_say(answers: dict[str, Answer]) -> None:
    for case in CASES:
        arguments = case.arguments
        if "--no-enable-prefix-caching" in arguments:
            assert answers[case.name].value["prefix_caching"] is False
        elif "--enable-prefix-caching" in arguments:
            assert answers[case.name].value["prefix_caching"] is True

"""What engines report is compared with what is declared: each difference once, with both values."""

from __future__ import annotations

from typing import Any

import pytest
from moriio_operator.api.report import EngineReport, PDReport
from moriio_operator.report.model_config import differences

from unit.samples import Json, owner

FACTS = "spec.model.config"


def report(*engines: Json) -> PDReport:
    made = [EngineReport.model_validate({"podUID": "u1", **engine}) for engine in engines]
    return PDReport(engines=made, renew_time="2026-05-04T12:00:00Z")


def found(declared: Json, *reports: PDReport, uids: tuple[str, ...] = ("u1", "u2")) -> list[str]:
    return list(differences(owner(declared).spec, reports, uids))


def facts(**declared: Any) -> Json:
    return {"model": {"config": declared}}


VERSION: Json = {"engine": {"version": "0.32.0"}}
EVERYTHING: Json = {
    "version": "0.30.1", "attention": "MLA", "kvHeads": 4, "recurrentState": True,
}  # fmt: skip


@pytest.mark.parametrize(
    ("declared", "reported"),
    [
        ({}, EVERYTHING),
        (VERSION | facts(attention="MLA", kvHeads=4, layers=["StateSpace"]), {}),
        (
            facts(attention="GQA", kvHeads=4, layers=["FullAttention"]),
            {"attention": "GQA", "kvHeads": 4, "recurrentState": False},
        ),
        (facts(layers=["FullAttention", "LinearAttention"]), {"recurrentState": True}),
        (VERSION, {"version": "0.32.1.dev5+g1"}),
        (VERSION, {"version": "nightly"}),
    ],
)
def test_what_is_not_declared_or_not_reported_does_not_differ(
    declared: Json, reported: Json
) -> None:
    assert found(declared, report(reported)) == []


def test_without_a_report_nothing_differs() -> None:
    assert found(VERSION | facts(attention="GQA")) == []


def test_each_declaration_that_differs_is_named_with_both_values() -> None:
    declared = VERSION | facts(attention="GQA", kvHeads=8, layers=["FullAttention"])
    assert found(declared, report(EVERYTHING)) == [
        "vLLM's version is stated as 0.32.0, and the engine reports 0.30.1: correct "
        "spec.engine.version",
        f"{FACTS}.attention is stated as GQA, and the engine reports MLA: correct it",
        f"{FACTS}.kvHeads is stated as 8, and the engine reports 4: correct it",
        f"{FACTS}.layers is stated as FullAttention, and the engine reports layers that keep a "
        "state (StateSpace or LinearAttention): correct it",
    ]


def test_layers_with_a_state_that_are_not_there_are_named() -> None:
    [text] = found(facts(layers=["StateSpace"]), report({"recurrentState": False}))
    assert text.endswith("the engine reports none of those: correct it")


def test_a_difference_is_named_once_however_many_engines_and_routers_report_it() -> None:
    both = report({"attention": "MLA"}, {"podUID": "u2", "attention": "MLA"})
    assert len(found(facts(attention="GQA"), both, both)) == 1


def test_the_texts_do_not_depend_on_the_order_of_reports() -> None:
    one, other = report({"kvHeads": 2}), report({"podUID": "u2", "kvHeads": 4})
    declared = facts(kvHeads=8)
    assert found(declared, one, other) == found(declared, other, one)
    assert len(found(declared, one, other)) == 2


def test_reports_on_other_engines_do_not_count() -> None:
    strange = report({"podUID": "u3", "attention": "MLA"})
    assert found(facts(attention="GQA"), strange) == []


def test_a_forged_report_makes_no_endless_text() -> None:
    forged = [report({"kvHeads": n, "version": f"1.{n}"}) for n in range(1, 400)]
    assert len(found(VERSION | facts(kvHeads=500), *forged)) == 6

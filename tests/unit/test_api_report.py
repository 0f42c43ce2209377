"""Reports are read as far as they are of a known shape, and by any version of the operator."""

from __future__ import annotations

import pytest
from moriio_operator.api.report import EngineReport, PDReport
from moriio_operator.facts.terms import Attention

from unit.samples import Json

TIME = "2026-05-04T12:00:00Z"
FULL: Json = {
    "podUID": "u-1",
    "version": "0.32.1.dev5+g1.rocm72",
    "attention": "MLA",
    "kvHeads": 8,
    "recurrentState": False,
}


def report(*engines: Json, **fields: Json | str) -> Json:
    return {"kind": "PDReport", "metadata": {}, "engines": [*engines], "renewTime": TIME, **fields}


def test_what_an_engine_reports_is_read() -> None:
    read = PDReport.from_object(report(FULL, {"podUID": "u-2"}))
    assert read is not None
    assert read.engines == [
        EngineReport(
            pod_uid="u-1",
            version="0.32.1.dev5+g1.rocm72",
            attention=Attention.MLA,
            kv_heads=8,
            recurrent_state=False,
        ),
        EngineReport(pod_uid="u-2"),
    ]


def test_what_is_read_is_written_in_the_same_words() -> None:
    read = EngineReport.model_validate(FULL)
    assert read.model_dump(mode="json", by_alias=True, exclude_none=True) == FULL


def test_fields_of_a_newer_version_are_passed_over() -> None:
    read = PDReport.from_object(report({**FULL, "later": 1}, proofs={"x": "y"}))
    assert read is not None
    assert read.engines == [EngineReport.model_validate(FULL)]


@pytest.mark.parametrize(
    "change",
    [
        {"podUID": ""},
        {"version": "0.32.0\n"},
        {"version": "x" * 200},
        {"attention": "Sparse"},
        {"kvHeads": 0},
        {"kvHeads": 10**30},
        {"recurrentState": "perhaps"},
    ],
)
def test_a_report_of_another_shape_is_none(change: Json) -> None:
    assert PDReport.from_object(report({**FULL, **change})) is None


def test_without_the_time_of_its_writing_it_is_none() -> None:
    assert PDReport.from_object({"kind": "PDReport", "engines": []}) is None

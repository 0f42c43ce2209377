"""Events tell changes, once, within the API's limits."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moriio_operator.api.status import Condition, EngineState, Status
from moriio_operator.facts.terms import Role
from moriio_operator.kube.objects import Object
from moriio_operator.observe.failure import Failure
from moriio_operator.report import events
from moriio_operator.report.events import EventRecord

from unit.samples import NOW, UID, engine, resource

# What validation of events.k8s.io/v1 allows, in bytes.
NOTE_BYTES, WORD_BYTES = 1024, 128


def status(**verdicts: str) -> Status:
    return Status(
        conditions=[
            Condition(
                type=kind,
                status="True" if word.startswith("+") else "False",
                observed_generation=1,
                last_transition_time="2026-05-04T12:00:00Z",
                reason="Reason",
                message=word[1:],
            )
            for kind, word in verdicts.items()
        ]
    )


def told(old: Status, new: Status) -> list[tuple[str, str]]:
    return [(each.type, each.note) for each in events.of_transitions(old, new)]


def test_nothing_new_is_not_told() -> None:
    now = status(Accepted="+ok", Ready="-no engine")
    assert told(now, now) == []


def test_a_change_is_told_with_the_conditions_words() -> None:
    assert told(status(Ready="-a"), status(Ready="+requests are served")) == [
        ("Normal", "Ready is True: requests are served")
    ]
    assert told(status(Ready="+a"), status(Ready="-no engine")) == [
        ("Warning", "Ready is False: no engine")
    ]


def test_other_words_for_the_same_status_are_not_told() -> None:
    assert told(status(Ready="-a"), status(Ready="-b")) == []


def test_a_spec_that_is_refused_for_another_cause_is_told() -> None:
    assert told(status(Accepted="-a"), status(Accepted="-b")) == [
        ("Warning", "Accepted is False: b")
    ]


def test_what_changed_in_one_pass_is_one_event_of_each_type() -> None:
    before = status(PrefillReady="-a", DecodeReady="+b", Progressing="+c", Ready="-d")
    after = status(PrefillReady="+a", DecodeReady="-b", Progressing="-c", Ready="+d")
    assert told(before, after) == [
        ("Normal", "PrefillReady is True: a; Progressing is False: c; Ready is True: d"),
        ("Warning", "DecodeReady is False: b"),
    ]


def test_good_news_has_the_reason_of_the_last_condition_and_bad_news_of_the_first() -> None:
    def reasons(conditions: list[tuple[str, str, str]]) -> Status:
        made = status(**{kind: word for kind, word, _ in conditions})
        named = zip(made.conditions, conditions, strict=True)
        return Status(
            conditions=[c.model_copy(update={"reason": reason}) for c, (_, _, reason) in named]
        )

    old = status(PrefillReady="-x", Ready="-x")
    new = reasons([("PrefillReady", "+x", "AllReady"), ("Ready", "+x", "Serving")])
    assert [each.reason for each in events.of_transitions(old, new)] == ["Serving"]
    worse = reasons([("PrefillReady", "-x", "EngineEnded"), ("Ready", "-x", "NoEngine")])
    assert [each.reason for each in events.of_transitions(new, worse)] == ["EngineEnded"]


def test_the_end_of_progress_is_no_warning() -> None:
    assert told(status(Progressing="+a"), status(Progressing="-b")) == [
        ("Normal", "Progressing is False: b")
    ]


def test_a_young_deployment_begins_without_warnings() -> None:
    young = status(Accepted="+ok", PrefillReady="-none", DecodeReady="-none", Ready="-none")
    assert told(Status(), young) == [("Normal", "Accepted is True: ok")]


def test_a_young_deployment_that_is_refused_is_warned_of() -> None:
    assert told(Status(), status(Accepted="-no leave")) == [
        ("Warning", "Accepted is False: no leave")
    ]


def test_an_end_is_told_with_pod_cause_and_words() -> None:
    ended = engine(4, Role.DECODE, EngineState.ENDED, failure=Failure("OOMKilled", "exit code 137"))
    record = events.of_end(ended)
    assert (record.type, record.reason) == ("Warning", "EngineEnded")
    assert record.note == "llm-decode-4: OOMKilled: exit code 137"


def test_an_end_without_words_is_told() -> None:
    record = events.of_end(engine(4, Role.DECODE, EngineState.ENDED))
    assert record.note.startswith("llm-decode-4: Ended")


def made(note: str = "n", kind: Literal["Normal", "Warning"] = "Normal") -> Object:
    return events.event(resource(), EventRecord(kind, "Reason", "Action", note), NOW)


def test_an_event_speaks_of_its_deployment() -> None:
    regarding = made()["regarding"]
    assert regarding == {
        "apiVersion": "moriio.dev/v1alpha1",
        "kind": "PDDeployment",
        "name": "llm",
        "namespace": "team",
        "uid": UID,
    }
    assert made()["metadata"]["namespace"] == "team"


def test_an_event_has_all_that_the_api_requires() -> None:
    event = made()
    assert event["eventTime"] == "2026-05-04T12:00:00.000000Z"
    assert event["reportingController"] == "moriio.dev/moriio-operator"
    assert all(event[key] for key in ("reportingInstance", "action", "reason", "type"))


def test_two_events_have_two_names() -> None:
    assert made()["metadata"]["name"] != made()["metadata"]["name"]


@pytest.mark.parametrize("letter", ["a", "é", "█", "🚀"])
@pytest.mark.parametrize("length", [1, 255, 341, 342, 512, 1023, 1024, 1025, 5000])
def test_a_note_fits_the_apis_limit_which_is_in_bytes(letter: str, length: int) -> None:
    note = letter * length
    cut = made(note)["note"]
    assert len(cut.encode()) <= NOTE_BYTES
    fits = len(note.encode()) <= NOTE_BYTES
    assert cut == note if fits else cut.endswith(f"{letter}...")


@given(st.text(max_size=60).map(lambda text: text * 50))
def test_any_note_is_valid_text_that_begins_as_it_was_written(note: str) -> None:
    cut = made(note)["note"]
    assert len(cut.encode()) <= NOTE_BYTES
    assert note.startswith(cut.removesuffix("..."))


@pytest.mark.parametrize("action", ["Reconcile", "Replace"])
def test_words_fit_the_apis_limit(action: str) -> None:
    actions = {
        each.action
        for each in (
            *events.of_transitions(Status(), status(Accepted="+x")),
            events.of_end(engine(4)),
        )
    }
    assert action in actions
    assert len(action) <= WORD_BYTES

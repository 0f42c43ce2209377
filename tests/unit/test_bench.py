"""The benchmark's arithmetic: percentiles, whose an object is, and how a script is played anew."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from bench import figures, script
from bench.ledger import Ledger
from bench.recording import Recorded
from bench.script import Casting

DEPLOYMENTS = "/apis/moriio.dev/v1alpha1/namespaces/bench/pddeployments"
PODS = "/api/v1/namespaces/bench/pods"


def call(
    verb: str, kind: str, path: str, began: float, took: float = 0.01, **more: object
) -> Recorded:
    query = more.get("query", {})
    body = more.get("body")
    assert isinstance(query, dict)
    assert body is None or isinstance(body, dict)
    return Recorded(verb, kind, "GET", path, query, body, "application/json", began, began + took)


def audited(verb: str, resource: str, name: str, code: int, *, query: str = "") -> str:
    return json.dumps(
        {
            "stage": "ResponseComplete",
            "verb": verb,
            "user": {"username": "operator"},
            "objectRef": {"resource": resource, "namespace": "bench", "name": name},
            "requestURI": f"/api/v1/{resource}{query}",
            "responseStatus": {"code": code},
            "requestReceivedTimestamp": "2026-01-01T00:00:00.250000Z",
            "stageTimestamp": "2026-01-01T00:00:00.750000Z",
        }
    )


def test_the_99th_percentile_of_a_hundred_is_the_worst_but_one() -> None:
    found = figures.latency(float(number) for number in range(1, 101))
    assert (found.p50_s, found.p99_s, found.times) == (50, 99, 100)
    assert figures.latency([3.0]).p50_s == 3


def test_an_object_is_its_deployments_by_the_first_two_words() -> None:
    known = {"given-001": (), "given-010": ()}
    assert figures.owner_of("given-001-prefill-0", known) == "given-001"
    assert figures.owner_of("given-001", known) == "given-001"
    assert figures.owner_of("given-100-prefill-0", known) is None


def test_a_ledger_reads_on_from_where_it_was_opened_and_no_half_lines(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.write_text(audited("create", "pods", "before", 201) + "\n")
    ledger = Ledger(log)
    with log.open("a") as out:
        out.write(audited("create", "pods", "a", 201) + "\n" + audited("get", "pods", "b", 200)[:9])
    (entry,) = ledger.entries("operator")
    assert (entry.name, entry.made, entry.category) == ("a", True, "other writes")
    assert entry.answered - entry.received == pytest.approx(0.5)
    with log.open("a") as out:
        out.write(audited("get", "pods", "b", 200)[9:] + "\n")
    assert [entry.name for entry in ledger.entries()] == ["a", "b"]


def test_calls_are_counted_by_what_they_cost(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.touch()
    ledger = Ledger(log)
    lines = [
        audited("list", "pods", "", 200),
        audited("get", "pods", "a", 404),
        audited("create", "pods", "a", 201, query="?dryRun=All"),
        audited("create", "pods", "a", 201),
        audited("create", "events", "a.1", 201),
        audited("update", "leases", "operator", 200),
        audited("watch", "pods", "", 200),
    ]
    log.write_text("\n".join(lines) + "\n")
    counted = figures.calls_each(ledger.entries(), 2)
    assert counted == {
        "reads": 1, "status writes": 0, "other writes": 0.5, "events": 0.5, "dry runs": 0.5,
    }  # fmt: skip
    assert figures.made_until(ledger.entries(), ["a"])["a"] == [ledger.entries()[3].answered]


def test_a_record_is_cut_into_passes_and_what_was_asked_at_once_stays_together() -> None:
    calls = [
        call("get", "PDDeployment", f"{DEPLOYMENTS}/probe-000", 10),
        call("list", "Pod", PODS, 10.02),
        call("list", "Service", PODS, 10.025),
        call("create", "Pod", PODS, 10.05),
        call("get", "PDDeployment", f"{DEPLOYMENTS}/probe-000", 10.07),
        call("list", "Pod", PODS, 11),
    ]
    found = script.passes(calls)
    assert [len(each.batches) for each in found] == [3, 1, 1]
    assert [len(batch) for batch in found[0].batches] == [1, 2, 1]
    assert [each.after_s for each in found] == pytest.approx([0, 0.07, 1])


def test_passes_that_are_due_together_read_and_report_once() -> None:
    early = [
        call("get", "PDDeployment", f"{DEPLOYMENTS}/probe-000", 10),
        replace(call("apply", "PDDeployment", f"{DEPLOYMENTS}/a/status", 10.02), method="PATCH"),
        replace(call("create", "Event", "/apis/events.k8s.io/v1/events", 10.04), method="POST"),
    ]
    late = [call("get", "PDDeployment", f"{DEPLOYMENTS}/probe-000", 11)]
    first, second = script.passes([*early, *late])
    assert script.merged([first, second]).batches == ((early[2],), (late[0],))
    assert script.merged([first]) == first


def test_only_calls_about_the_one_deployment_are_played() -> None:
    mine = call("list", "Pod", PODS, 1, query={"labelSelector": "moriio.dev/deployment=probe-000"})
    others = [
        call("list", "PDDeployment", DEPLOYMENTS, 1, query={"labelSelector": "probe-000"}),
        call("update", "Lease", "/apis/x/v1/namespaces/bench/leases/probe-000", 1),
        call("get", "PDDeployment", "/apis/moriio.dev/v1alpha1", 1),
        call("list", "Pod", PODS, 1),
    ]
    assert script.about([mine, *others], "bench", "probe-000") == [mine]


def test_a_call_is_played_for_another_with_its_own_name_uid_and_version() -> None:
    body = {
        "metadata": {"name": "probe-000", "resourceVersion": "5"},
        "spec": {"owner": "uid-of-probe", "selector": "probe-000-prefill", "version": "5"},
    }
    recorded = call("apply", "PDDeployment", f"{DEPLOYMENTS}/probe-000/status", 1, body=body)
    played = Casting("probe-000", "uid-of-probe", "first-007", "other").of(recorded, "77")
    assert played.path == f"{DEPLOYMENTS}/first-007/status"
    assert played.body == {
        "metadata": {"name": "first-007", "resourceVersion": "77"},
        "spec": {"owner": "other", "selector": "first-007-prefill", "version": "5"},
    }


def test_a_pages_table_is_replaced_and_the_rest_of_it_stays(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- bench: begin -->\nold\n<!-- bench: end -->\nafter\n")
    figures.put(page, figures.table([["a", "b"], ["1", "2"]]))
    assert page.read_text().splitlines() == [
        "before",
        "<!-- bench: begin -->",
        "| a | b |",
        "| --- | --- |",
        "| 1 | 2 |",
        "<!-- bench: end -->",
        "after",
    ]
    page.write_text("no marks")
    with pytest.raises(ValueError, match="lacks the marks"):
        figures.put(page, "new")

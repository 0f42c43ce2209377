"""Metrics have bounded labels, logs one line an event."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog
from moriio_operator.telemetry import logs
from moriio_operator.telemetry.metrics import OperatorMetrics
from prometheus_client import CollectorRegistry


def test_passes_calls_and_the_queue_are_counted() -> None:
    registry = CollectorRegistry()
    metrics = OperatorMetrics(registry, lambda: 3)
    metrics.observe_pass("ok", 0.02)
    metrics.observe_pass("error", 0.02)
    metrics.observe_call("get", "Pod", 404, 0.01)

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"moriio_operator_{name}", labels)

    assert value("reconciles_total", result="ok") == 1
    assert value("reconciles_total", result="error") == 1
    assert value("reconcile_seconds_count") == 2
    assert value("api_calls_total", verb="get", kind="Pod", status="404") == 1
    assert value("api_call_seconds_count", verb="get") == 1
    assert value("queue_length") == 3


@pytest.fixture
def restored() -> Iterator[None]:
    """Logging as it was before."""
    root, before = logging.getLogger(), structlog.get_config()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.configure(**before)
    root.handlers = handlers
    root.setLevel(level)


@pytest.mark.usefixtures("restored")
def test_our_events_and_others_records_are_one_line_of_key_and_value(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs.configure("info")
    structlog.get_logger("ours").info("engine created", key="team/llm", pod="llm-decode-4")
    logging.getLogger("theirs").warning("several\nlines")
    structlog.get_logger("ours").debug("not told")
    ours, theirs = capsys.readouterr().err.splitlines()
    assert 'level=info event="engine created"' in ours
    assert ours.endswith("key=team/llm pod=llm-decode-4")
    assert "several\\nlines" in theirs

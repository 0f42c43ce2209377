"""The operator's metrics."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class OperatorMetrics:
    """What an admin watches of the operator; bounded label values only."""

    def __init__(self, registry: CollectorRegistry, queue_length: Callable[[], int]) -> None:
        self.passes = Counter(
            "moriio_operator_reconciles",
            "Reconcile passes by result (ok, conflict, error).",
            ["result"],
            registry=registry,
        )
        self.pass_seconds = Histogram(
            "moriio_operator_reconcile_seconds",
            "Duration of a reconcile pass.",
            registry=registry,
            buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
        )
        self.calls = Counter(
            "moriio_operator_api_calls",
            "Kubernetes API calls by verb, kind and HTTP status (0: no answer).",
            ["verb", "kind", "status"],
            registry=registry,
        )
        self.call_seconds = Histogram(
            "moriio_operator_api_call_seconds",
            "Duration of a Kubernetes API call until its answer begins.",
            ["verb"],
            registry=registry,
        )
        length = Gauge("moriio_operator_queue_length", "PDDeployments due now.", registry=registry)
        length.set_function(queue_length)

        self._leader = Gauge(
            "moriio_operator_leader", "1 while this replica leads.", registry=registry
        )

    def leads(self, leads: Callable[[], bool]) -> None:
        """Show from now on whether this replica leads."""
        self._leader.set_function(leads)

    def observe_pass(self, result: str, seconds: float) -> None:
        """Count a reconcile pass."""
        self.passes.labels(result).inc()
        self.pass_seconds.observe(seconds)

    def observe_call(self, verb: str, kind: str, status: int, seconds: float) -> None:
        """Count an API call."""
        self.calls.labels(verb, kind, str(status)).inc()
        self.call_seconds.labels(verb).observe(seconds)

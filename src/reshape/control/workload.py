"""Workload metrics (§2.1): what the skew test compares.

Skew handling does not depend on which one is used; thresholds are in the metric's own unit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reshape.control.events import MetricsCollected

WorkloadMetric = Callable[[MetricsCollected], Sequence[float]]


def waiting_rows(event: MetricsCollected) -> Sequence[float]:
    """phi: rows sent to a worker and not yet processed, wherever they wait. The default."""
    return event.workload


def busy_time(event: MetricsCollected) -> Sequence[float]:
    """Milliseconds per second that a worker is busy, as Flink reports it (§7.12)."""
    if len(event.busy) != len(event.workload):
        return [0.0] * len(event.workload)
    return [1000.0 * share for share in event.busy]


METRICS: dict[str, WorkloadMetric] = {"rows": waiting_rows, "busy": busy_time}

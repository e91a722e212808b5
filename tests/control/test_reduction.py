"""Load reduction, over a run and over periods; and the workload metrics."""

from __future__ import annotations

import pytest

from reshape.control.commands import ReplicateState
from reshape.control.events import MetricsCollected
from reshape.control.sensing.reduction import PeriodicReduction, load_reduction, max_load_reduction
from reshape.control.workload import METRICS, busy_time, waiting_rows

from .desk import Desk, only


def test_reduction_is_of_the_largest_of_the_group() -> None:
    assert load_reduction({0: 1000, 1: 200}, {0: 600, 1: 600}) == 400
    assert load_reduction({0: 1000, 1: 200}, {0: 700, 1: 500}) == 300
    assert load_reduction({0: 1000, 1: 200}, {0: 500, 1: 700}) == 300
    assert load_reduction({0: 1000, 1: 200}, {0: 0, 1: 1200}) == -200
    assert max_load_reduction(1000, 200, 1) == 400
    assert max_load_reduction(0.5, 0.1, 2, 1000) == pytest.approx(300)


def test_periods_count_only_what_came_in_them() -> None:
    reduction = PeriodicReduction(10.0)
    groups = [(0, (1,))]
    reduction.observe(0.0, [0, 0, 0], [0, 0, 0], groups)
    reduction.observe(5.0, [500, 100, 0], [400, 200, 0], groups)
    assert not reduction.periods
    reduction.observe(10.0, [1000, 200, 0], [600, 600, 0], groups)
    reduction.observe(21.0, [2000, 400, 0], [1100, 1300, 0], groups)
    assert [(p.since, p.until, p.rows) for p in reduction.periods] == [(0.0, 10.0, 400), (10.0, 21.0, 300)]
    assert reduction.periods[0].skewed == 0
    assert reduction.periods[0].helpers == (1,)


def test_no_group_no_period() -> None:
    reduction = PeriodicReduction(1.0)
    for time in range(5):
        reduction.observe(float(time), [time, 0], [time, 0], [])
    assert not reduction.periods


def test_the_controller_reports_periods_when_asked() -> None:
    assert Desk().brain.reduction is None
    desk = Desk(reduction_period_s=2.0)
    desk.report([0, 0, 0], [10, 10, 10])
    sent = only(desk.report([500, 0, 0], [900, 10, 10]), ReplicateState)
    desk.state_arrives(sent.transfer, 1)
    desk.apply()
    for _ in range(4):
        desk.report([500, 400, 0], [900, 10, 10])
    assert desk.brain.reduction is not None
    assert {p.skewed for p in desk.brain.reduction.periods} == {0}


def event(**fields: object) -> MetricsCollected:
    columns = dict.fromkeys(("workload", "processed", "routed", "received", "state_bytes"), (5, 7))
    return MetricsCollected(1, 1.0, **(columns | fields))  # type: ignore[arg-type]


def test_metrics() -> None:
    assert list(waiting_rows(event())) == [5, 7]
    assert list(busy_time(event(busy=(0.25, 1.0)))) == [250.0, 1000.0]
    assert list(busy_time(event())) == [0.0, 0.0], "a body that does not measure it has no skew by it"
    assert {"rows": waiting_rows, "busy": busy_time} == METRICS

"""What a chart shows of a running result, and what is said where it cannot be drawn."""

from __future__ import annotations

import base64
import re
from datetime import date
from typing import Any

import pyarrow as pa
import pytest

from reshape.errors import FlowError
from reshape.observe.charts import MOST_BARS, MOST_LINES, MOST_POINTS, ChartSpec, drawn
from reshape.observe.drawing import chart_html
from reshape.observe.estimates import Estimate
from reshape.observe.representativeness import Representativeness, Shown


def shown(table: pa.Table, **more: Any) -> Shown:
    return Shown(table, None, Representativeness(0.5, {}), 1.0, **{"final": False, **more})


def december(days: list[int]) -> list[date]:
    return [date(2020, 12, day) for day in days]


def picture(html: str) -> str:
    (found,) = re.findall(r"data:image/svg\+xml;base64,([\w+/=]+)", html)
    return base64.b64decode(found).decode()


def test_a_line_says_where_points_are_not_there_yet() -> None:
    days = [3, 1, 2, 7, 8, 1, 2, 3, 4]
    table = pa.table({"day": december(days), "n": days, "month": ["a"] * 5 + ["b"] * 4})
    spec = ChartSpec("line", "day", "n", "month")
    first, second = drawn(spec, shown(table)).lines
    assert [point.y for point in first.points] == [1, 2, 3, 7, 8]
    assert [point.after_gap for point in first.points] == [False, False, False, True, False]
    assert (first.complete, second.complete) == (3, 4)
    at_the_end = drawn(spec, shown(table, final=True))
    assert [line.complete for line in at_the_end.lines] == [5, 4], "what is missing is not in the data"
    cut = drawn(spec, shown(table, final=True, left_out=3))
    assert cut.lines[0].complete == 3, "some rows are not shown"


@pytest.mark.parametrize(
    ("xs", "complete"),
    [
        ([1, 2, 3, 5], 3),
        ([10, 20, 30], 3),
        ([0.5, 0.7, 9.0], 3),
        (["a", "b", "x"], 3),
        ([1], 1),
    ],
)
def test_where_x_counts_one_line_alone_can_have_a_gap(xs: list[Any], complete: int) -> None:
    table = pa.table({"x": xs, "n": range(len(xs))})
    (line,) = drawn(ChartSpec("line", "x", "n"), shown(table)).lines
    assert line.complete == complete


def test_of_many_points_lines_and_bars_some_are_drawn() -> None:
    xs = list(range(5 * MOST_POINTS))
    del xs[7_001]
    (line,) = drawn(ChartSpec("line", "x", "y"), shown(pa.table({"x": xs, "y": xs}))).lines
    assert len(line.points) <= MOST_POINTS
    assert sum(point.after_gap for point in line.points) == 1, "no gap is lost"
    names = [f"line {number}" for number in range(MOST_LINES + 3)]
    many = drawn(
        ChartSpec("line", "x", "y", "s"), shown(pa.table({"x": [1] * len(names), "y": xs[: len(names)], "s": names}))
    )
    assert (len(many.lines), many.more) == (MOST_LINES, 3)
    bars = drawn(ChartSpec("bar", "x", "y"), shown(pa.table({"x": xs[:900], "y": xs[:900]}), left_out=5))
    assert (len(bars.lines[0].points), bars.more) == (MOST_BARS, 900 - MOST_BARS + 5)
    assert bars.lines[0].points[-1].y == 899


def test_values_without_a_place_are_left_out() -> None:
    table = pa.table({"x": [1.0, None, float("nan"), 4.0], "y": [1.0, 2.0, 3.0, None]})
    assert [len(line.points) for line in drawn(ChartSpec("line", "x", "y"), shown(table)).lines] == [1]
    assert drawn(ChartSpec("bar", "x", "y"), None).lines == ()
    others = pa.table([[1.0], ["text"], [1], [2]], names=["x", "y", "s", "s"])
    for spec in (ChartSpec("bar", "x", "y"), ChartSpec("line", "x", "x", "s"), ChartSpec("line", "x", "x", "absent")):
        assert drawn(spec, shown(others)).lines == (), "the flow's own columns are not those of the query"


def test_bars_have_whiskers_until_the_end() -> None:
    table = pa.table({"k": ["<b>", "c"], "n": [1, 2]})
    estimates = {"n": (Estimate(10.0, 8.0, 12.0, 0.95), None)}
    spec = ChartSpec("bar", "k", "n")
    running = chart_html(drawn(spec, shown(table, estimates=estimates)))
    assert "50% representative" in running
    assert picture(running).count('class="whisker"') == 1
    assert "<b>" not in picture(running)
    final = chart_html(drawn(spec, shown(table, estimates=estimates, final=True)))
    assert "The final result" in final
    assert "whisker" not in picture(final)


def test_missing_points_are_dashed_in_a_picture() -> None:
    table = pa.table({"x": [1, 2, 5, 6], "y": [1.5, 0.0, -3.0, 2.0]})
    running = drawn(ChartSpec("line", "x", "y"), shown(table))
    assert picture(chart_html(running)).count('class="missing"') == 1
    assert "missing" not in picture(chart_html(drawn(ChartSpec("line", "x", "y"), shown(table, final=True))))
    assert "nothing to show yet" in chart_html(drawn(ChartSpec("line", "x", "y"), None))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            ChartSpec("bar", "mont", "n"),
            r"bar: the result has no column 'mont' \(did you mean month\?\); it has month, n",
        ),
        (ChartSpec("line", "month", "n", "state"), "line: the result has no column 'state'; it has month, n"),
        (ChartSpec("line", "n", "month"), "line: 'month' is no column of numbers, so it has no height; those are n"),
    ],
)
def test_wrong_columns_are_named(spec: ChartSpec, message: str) -> None:
    with pytest.raises(FlowError, match=message):
        spec.check({"month": False, "n": True})

"""Charts of a running result: what they are to show, and what they show at a moment.

A line has no hidden gaps (§3.1): where a point between two others is not there yet, the record says so, and it is drawn
as such.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any, Literal, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from reshape.errors import FlowError
from reshape.observe.cells import values_of
from reshape.observe.estimates import Estimate
from reshape.observe.representativeness import Shown

# Of all lines together: more than a screen has columns cannot be told apart. Of more, evenly spaced ones are shown.
MOST_POINTS = 2_000
# More lines than this cannot be told apart either; those with the largest sums are shown.
MOST_LINES = 12
MOST_BARS = 200
# Values that have an order of their own; others are told, and ordered, by their texts.
_ORDERED = (int, float, Decimal, str, date, time, timedelta)


@dataclass(frozen=True, slots=True)
class ChartSpec:
    """Which columns of a result are drawn, and how."""

    kind: Literal["bar", "line"]
    x: str
    y: str
    series: str | None = None

    def __str__(self) -> str:
        of_series = "" if self.series is None else f", a line for each {self.series}"
        return f"{self.y} by {self.x}{of_series}"

    def check(self, columns: Mapping[str, bool]) -> None:
        """``columns``: those of the result, and whether each is one of numbers."""
        for name in filter(None, (self.x, self.y, self.series)):
            if name not in columns:
                near = difflib.get_close_matches(name, columns, 1)
                meant = f" (did you mean {near[0]}?)" if near else ""
                raise FlowError(f"{self.kind}: the result has no column {name!r}{meant}; it has {', '.join(columns)}")
        if not columns[self.y]:
            numbers = [name for name, is_number in columns.items() if is_number]
            raise FlowError(
                f"{self.kind}: {self.y!r} is no column of numbers, so it has no height; "
                f"those are {', '.join(numbers) or 'none'}"
            )


@dataclass(frozen=True, slots=True)
class Point:
    """``after_gap``: points between this one and the one before it are not there yet, or not shown."""

    x: Any
    y: float
    estimate: Estimate | None = None
    after_gap: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """The points of one line in the order of x; a bar chart has one, whose points are its bars."""

    name: str | None
    points: tuple[Point, ...]

    @property
    def complete(self) -> int:
        """How many points at the front have no gap between them."""
        gaps = (number for number, point in enumerate(self.points) if point.after_gap)
        return next(gaps, len(self.points))


@dataclass(frozen=True, slots=True)
class Chart:
    """What a chart shows at a moment. ``more``: bars or lines, and rows, that are not among it."""

    spec: ChartSpec
    lines: tuple[Line, ...] = ()
    trust: float = 0.0
    final: bool = False
    more: int = 0

    def _repr_html_(self) -> str:
        from reshape.observe.drawing import chart_html

        return chart_html(self)


class ResultShape(Protocol):
    """What becomes of a flow's rows behind it."""

    def applied(self, shown: Shown) -> Shown | None: ...

    def keys(self, of_flow: int) -> int: ...


@dataclass(slots=True)
class Presentation:
    """How people see a running result. ``shape``: what becomes of it behind the flow; ``chart``: what it feeds. Both
    are set by the handle, while the flow runs or before."""

    shape: ResultShape | None = None
    chart: ChartSpec | None = None

    def of(self, shown: Shown | None) -> Shown | None:
        """A running result of the flow as one of the query."""
        return shown if shown is None or self.shape is None else self.shape.applied(shown)

    def keys(self, of_flow: int) -> int:
        """How many columns at the front tell the query's rows apart, if so many of the flow's do."""
        return of_flow if self.shape is None else self.shape.keys(of_flow)


def drawn(spec: ChartSpec, shown: Shown | None) -> Chart:
    """What there is to draw of a running result."""
    if shown is None or not _is_drawable(spec, shown.table):
        return Chart(spec)
    lines: dict[str | None, list[Point]] = {}
    for name, point in _points(spec, shown):
        lines.setdefault(name, []).append(point)
    made = _bars(lines) if spec.kind == "bar" else _lines(lines, complete=shown.final and not shown.left_out)
    left = len(lines) - len(made) if spec.kind == "line" else sum(map(len, lines.values())) - len(made[0].points)
    return Chart(spec, made, shown.representativeness.overall, shown.final, left + shown.left_out)


def _is_drawable(spec: ChartSpec, table: pa.Table) -> bool:
    """Where Spark does more behind a flow than can be done on a running result, the flow's own columns are shown."""
    names = [name for name in (spec.x, spec.y, spec.series) if name is not None]
    return all(table.column_names.count(name) == 1 for name in names) and is_number(table.schema.field(spec.y).type)


def first_chart(table: pa.Table, keys: int) -> ChartSpec | None:
    """Bars of the first measure by the first column; None where there is nothing to measure."""
    measures = measured(table, keys)
    return ChartSpec("bar", table.column_names[0], measures[0]) if measures else None


def measured(table: pa.Table, keys: int) -> list[str]:
    """Columns of numbers, those behind the keys if there are any. Of columns with one name none could be meant."""
    names = table.schema.names
    numbers: list[str] = [
        field.name for field in table.schema if is_number(field.type) and names.count(field.name) == 1
    ]
    return [name for name in table.schema.names[keys:] if name in numbers] or numbers


def is_number(kind: pa.DataType) -> bool:
    return bool(pat.is_integer(kind) or pat.is_floating(kind) or pat.is_decimal(kind))


def _points(spec: ChartSpec, shown: Shown) -> Iterator[tuple[str | None, Point]]:
    """Each with the name of its line. Nulls have no place."""
    table = shown.table
    ys = pc.cast(table.column(spec.y), pa.float64(), safe=False).to_pylist()
    xs = values_of(table.column(spec.x))
    names = [None] * len(xs) if spec.series is None else map(str, values_of(table.column(spec.series)))
    found = shown.estimates.get(spec.y)
    estimates = [None] * len(xs) if shown.final or found is None or isinstance(found, str) else found
    for name, x, y, estimate in zip(names, xs, ys, estimates, strict=True):
        if y is not None and math.isfinite(y) and x is not None and not (isinstance(x, float) and math.isnan(x)):
            yield name, Point(x if isinstance(x, _ORDERED) else str(x), y, estimate)


def _bars(of_one: Mapping[str | None, list[Point]]) -> tuple[Line, ...]:
    largest = sorted(of_one.get(None, ()), key=lambda point: -point.y)[:MOST_BARS]
    return (Line(None, _in_order(largest)),)


def _lines(lines: Mapping[str | None, list[Point]], *, complete: bool) -> tuple[Line, ...]:
    """``complete``: what is not there is not in the data."""
    steps = _Steps({point.x for points in lines.values() for point in points})
    largest = sorted(lines, key=lambda name: -sum(abs(point.y) for point in lines[name]))[:MOST_LINES]
    made = []
    for name in sorted(largest, key=str):
        points = _in_order(lines[name])
        pairs = pairwise(points)
        gaps = [False, *(not complete and steps.missing(one.x, other.x) for one, other in pairs)]
        marked = [replace(point, after_gap=gap) for point, gap in zip(points, gaps, strict=True)]
        step = -(-len(marked) * len(largest) // MOST_POINTS)
        made.append(Line(name, tuple(_first(marked[at : at + step]) for at in range(0, len(marked), step))))
    return tuple(made)


def _in_order(points: Sequence[Point]) -> tuple[Point, ...]:
    return tuple(sorted(points, key=lambda point: point.x))


def _first(points: Sequence[Point]) -> Point:
    return replace(points[0], after_gap=any(point.after_gap for point in points))


class _Steps:
    """What lies between two points: those that other lines have, and where x counts (whole numbers, days) all that are
    so far apart as the nearest two."""

    def __init__(self, xs: set[Any]) -> None:
        known = sorted(xs)
        self._number = {x: number for number, x in enumerate(known)}
        counts = [_count(x) for x in known]
        apart = [b - a for a, b in pairwise(counts) if a is not None and b is not None]
        self._step = min(apart, default=1)

    def missing(self, one: Any, other: Any) -> bool:
        if self._number[other] - self._number[one] > 1:
            return True
        first, second = _count(one), _count(other)
        return first is not None and second is not None and second - first > self._step


def _count(x: Any) -> int | None:
    if isinstance(x, date) and not isinstance(x, datetime):
        return x.toordinal()
    return x if isinstance(x, int) else None

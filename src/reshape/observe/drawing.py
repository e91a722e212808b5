"""Charts as pictures that need no script: for notebooks that are saved, and for those who look at them later.

A picture stands on whatever ground a reader's page has, so its colours can be seen on light and dark.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from reshape.observe.charts import Chart, Line, Point

WIDTH, HEIGHT = 640, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 14, 10, 34
_BAR_HIGH = 20
# As many as can be read; a table beside it has more.
_MOST_BARS = 40
_INK, _GRID = "#6f7a86", "#8b97a555"
_BAR, _EXPECTED = "#4a7fb5", "#8fb3d955"
# Told apart by brightness as well.
COLORS = ("#3b82c4", "#d1682a", "#2a9d8f", "#a45bb5", "#b8931f", "#c2466b", "#5e8c31", "#7a86c9")
_TEXT = f'font-family="system-ui, sans-serif" font-size="11" fill="{_INK}"'


def chart_html(chart: Chart) -> str:
    """A picture with words beside it."""
    if not any(line.points for line in chart.lines):
        return f"<p>{escape(str(chart.spec))}: nothing to show yet.</p>"
    trust = "The final result" if chart.final else f"{chart.trust:.0%} representative of the input so far"
    more = f"; {chart.more:,} more are not shown" if chart.more else ""
    told = f"{chart.spec}. {trust}{more}."
    picture = base64.b64encode(chart_svg(chart).encode()).decode()
    # As an image: front ends that do not trust a notebook take drawings and styles out of it, but leave images.
    return f'<p>{escape(told)}</p><img alt="{escape(told)}" src="data:image/svg+xml;base64,{picture}">'


def chart_svg(chart: Chart) -> str:
    """The picture alone."""
    return _bars(chart.lines[0].points) if chart.spec.kind == "bar" else _lines(chart.lines)


def short(value: float) -> str:
    """A number in few letters."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if letter == 'k' else size):.3g}{letter}"
    return f"{value:,.4g}" if abs(value) < 1_000 else f"{value:,.0f}"


def _bars(points: Sequence[Point]) -> str:
    shown = sorted(sorted(points, key=lambda point: -point.y)[:_MOST_BARS], key=lambda point: point.x)
    most = max([1e-9, *(max(point.y, point.estimate.high if point.estimate else 0.0) for point in shown)])
    wide = WIDTH - 120 - 70
    parts = []
    for number, point in enumerate(shown):
        top, middle = number * (_BAR_HIGH + 4), number * (_BAR_HIGH + 4) + _BAR_HIGH / 2
        parts.append(_text(112, middle + 4, _cut(point.x, 16), "end"))
        if point.estimate is not None:
            low, high = (120 + wide * max(0.0, end) / most for end in (point.estimate.low, point.estimate.high))
            parts.append(_box(120, top, wide * point.estimate.value / most, _EXPECTED))
            parts.append(_box(120, top, wide * point.y / most, _BAR))
            ends = f"M{low:.1f},{middle - 5} v10 M{low:.1f},{middle} H{high:.1f} M{high:.1f},{middle - 5} v10"
            parts.append(f'<path class="whisker" d="{ends}" stroke="{_INK}" stroke-width="2" fill="none"/>')
        else:
            parts.append(_box(120, top, wide * point.y / most, _BAR))
        parts.append(_text(WIDTH - 4, middle + 4, short(point.y), "end"))
    return _picture(len(shown) * (_BAR_HIGH + 4), parts)


def _lines(lines: Sequence[Line]) -> str:
    xs = sorted({point.x for line in lines for point in line.points})
    place = _places(xs)
    values = [point.y for line in lines for point in line.points]
    low, high = min([0.0, *values]), max([0.0, *values])
    high = high if high > low else low + 1.0  # a scale has a height
    right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM

    def at(point: Point) -> tuple[float, float]:
        across = _LEFT + (right - _LEFT) * place[point.x]
        return across, bottom - (bottom - _TOP) * (point.y - low) / (high - low)

    parts = []
    for tick in (low, (low + high) / 2, high):
        y = bottom - (bottom - _TOP) * (tick - low) / (high - low)
        parts.append(f'<path d="M{_LEFT},{y:.1f} H{right}" stroke="{_GRID}"/>')
        parts.append(_text(_LEFT - 6, y + 4, short(tick), "end"))
    for x, anchor in {xs[len(xs) // 2]: "middle", xs[-1]: "end", xs[0]: "start"}.items():
        parts.append(_text(_LEFT + (right - _LEFT) * place[x], bottom + 16, _cut(x, 20), anchor))
    for number, line in enumerate(lines):
        parts += _line(line, [at(point) for point in line.points], COLORS[number % len(COLORS)])
    if lines[0].name is not None:
        parts += list(_legend(lines))
    return _picture(HEIGHT + (18 * -(-len(lines) // 4) if lines[0].name is not None else 0), parts)


def _line(line: Line, places: Sequence[tuple[float, float]], color: str) -> Iterator[str]:
    """Whole from point to point, dashed where points are missing."""
    whole, missing = [], []
    for number, (x, y) in enumerate(places):
        if number and line.points[number].after_gap:
            before = places[number - 1]
            missing.append(f"M{before[0]:.1f},{before[1]:.1f} L{x:.1f},{y:.1f}")
        joined = number > 0 and not line.points[number].after_gap
        whole.append(f"{'L' if joined else 'M'}{x:.1f},{y:.1f}")
    yield f'<path d="{" ".join(whole)}" stroke="{color}" stroke-width="2" fill="none"/>'
    if missing:
        dashes = 'stroke-dasharray="3 4" opacity=".6"'
        yield f'<path class="missing" d="{" ".join(missing)}" stroke="{color}" stroke-width="2" fill="none" {dashes}/>'
    if len(places) == 1:
        yield f'<circle cx="{places[0][0]:.1f}" cy="{places[0][1]:.1f}" r="3" fill="{color}"/>'


def _legend(lines: Sequence[Line]) -> Iterator[str]:
    wide = (WIDTH - _LEFT) / 4
    for number, line in enumerate(lines):
        x, y = _LEFT + wide * (number % 4), HEIGHT + 18 * (number // 4)
        yield _box(x, y - 4, 10, COLORS[number % len(COLORS)], 10)
        yield _text(x + 15, y + 5, _cut(line.name, 18), "start")


def _places(xs: Sequence[Any]) -> dict[Any, float]:
    """From 0 to 1: numbers by their size, all else one after the other."""
    if all(isinstance(x, int | float) for x in xs) and xs[-1] > xs[0]:
        return {x: (x - xs[0]) / (xs[-1] - xs[0]) for x in xs}
    return {x: number / max(1, len(xs) - 1) for number, x in enumerate(xs)}


def _box(x: float, y: float, wide: float, color: str, high: float = _BAR_HIGH) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(0.0, wide):.1f}" height="{high}" rx="2" fill="{color}"/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {_TEXT}>{escape(text)}</text>'


def _cut(value: Any, most: int) -> str:
    text = str(value)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _picture(high: float, parts: Sequence[str]) -> str:
    box = f'viewBox="0 0 {WIDTH} {high}" width="{WIDTH}" height="{high}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box}>{"".join(parts)}</svg>'

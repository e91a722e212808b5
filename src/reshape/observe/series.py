"""Series over time in bounded memory: when one is full, every second point goes, and points come half as often."""

from __future__ import annotations

# Wider than a chart on most screens has pixels for lines; an hour then has a point every seven to fourteen seconds.
MOST_POINTS = 512


class Series:
    """Some values at growing times. The newest point is always there, those before it are evenly spaced."""

    def __init__(self, *names: str, most: int = MOST_POINTS) -> None:
        self.names = names
        self._most = most
        self._step_s = 0.0
        self._kept_at = float("-inf")
        self._points: list[tuple[float, ...]] = []  # seconds first
        self._newest: tuple[float, ...] | None = None

    def add(self, seconds: float, *values: float) -> None:
        point = (seconds, *values)
        self._newest = point
        if seconds - self._kept_at < self._step_s:
            return
        self._points.append(point)
        self._kept_at = seconds
        if len(self._points) >= self._most:
            span_s = self._points[-1][0] - self._points[0][0]
            self._points = self._points[::2]
            self._kept_at = self._points[-1][0]
            self._step_s = 2 * span_s / self._most

    def columns(self) -> dict[str, list[float]]:
        """Seconds and values by name, oldest first."""
        points = list(self._points)
        if self._newest is not None and (not points or points[-1] != self._newest):
            points.append(self._newest)
        columns = list(zip(*points, strict=True)) or [()] * (len(self.names) + 1)
        return {name: list(column) for name, column in zip(("seconds", *self.names), columns, strict=True)}

"""Prediction of the load that each owner will receive (§3.2, §4).

The sample of an owner is a list of windows: its rows out of the operator's input, counted before redirection and
scaled to a horizon ("of the next 2,000 rows"). It is kept since the owner was last balanced with its partner
(§4.3.1). Sums are kept for all owners at once and a reset only notes where an owner's sample starts, so a
report of ten thousand workers costs two passes over a list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, sqrt
from typing import Protocol

from reshape.control.settings import History, StrategySettings


@dataclass(frozen=True, slots=True)
class Prediction:
    """Expected rows of an owner out of the next horizon's rows, and how far off that may be."""

    mean: float
    standard_error: float
    windows: float


class LoadModel(Protocol):
    """psi (§3.2): turns windows into predictions."""

    def add(self, window: Sequence[float]) -> None:
        """Add one window: a value per owner."""

    def reset(self, owner: int) -> None:
        """Forget what was seen of an owner; its last prediction stands until there is a new window."""

    def predict(self, owner: int) -> Prediction: ...

    def means(self) -> Sequence[float]:
        """A quick mean of every owner over all windows, for ranking only."""


@dataclass(slots=True)
class _Start:
    """Where an owner's sample starts: the sums at that moment, to be taken off the present ones."""

    at: int
    weight: float
    weight_squares: float
    values: float
    squares: float


class RecencyModel:
    """Weighted mean in which a window loses half of its weight each ``half_life`` windows.

    The standard error of a prediction is d * sqrt(1 + 1/n) (§4.3.2), d being the weighted standard deviation
    and n the effective number of windows.
    """

    def __init__(self, owners: int, half_life: float, history: Mapping[int, History] | None = None) -> None:
        self._decay = 0.5 ** (1.0 / half_life)
        self._at = 0
        self._weight = 0.0
        self._weight_squares = 0.0
        self._values = [0.0] * owners
        self._squares = [0.0] * owners
        self._starts: dict[int, _Start] = {}
        self._kept: dict[int, Prediction] = {}
        for owner, past in (history or {}).items():
            if 0 <= owner < owners:
                self._seed(owner, past)

    def _seed(self, owner: int, past: History) -> None:
        # A start with negative sums adds the earlier run's windows to whatever comes.
        n = float(past.windows)
        squares = n * past.mean**2 + max(0.0, n - 1.0) * past.deviation**2
        self._starts[owner] = _Start(0, -n, -n, -n * past.mean, -squares)

    def add(self, window: Sequence[float]) -> None:
        decay = self._decay
        self._at += 1
        self._weight = self._weight * decay + 1.0
        self._weight_squares = self._weight_squares * decay * decay + 1.0
        if decay == 1.0:
            self._values = [total + value for total, value in zip(self._values, window, strict=True)]
            self._squares = [total + value * value for total, value in zip(self._squares, window, strict=True)]
        else:
            self._values = [total * decay + value for total, value in zip(self._values, window, strict=True)]
            self._squares = [total * decay + value * value for total, value in zip(self._squares, window, strict=True)]

    def reset(self, owner: int) -> None:
        self._kept[owner] = self.predict(owner)
        self._starts[owner] = _Start(
            self._at, self._weight, self._weight_squares, self._values[owner], self._squares[owner]
        )

    def predict(self, owner: int) -> Prediction:
        weight, weight_squares = self._weight, self._weight_squares
        values, squares = self._values[owner], self._squares[owner]
        start = self._starts.get(owner)
        if start is not None:
            faded = self._decay ** (self._at - start.at)
            weight -= start.weight * faded
            weight_squares -= start.weight_squares * faded * faded
            values -= start.values * faded
            squares -= start.squares * faded
        # Below half a window nothing but rounding is left of the sums.
        if weight < 0.5:
            return self._kept.get(owner, Prediction(0.0, inf, 0.0))
        mean = max(0.0, values / weight)
        windows = weight * weight / weight_squares
        if windows < 1.5:
            return Prediction(mean, inf, windows)
        variance = max(0.0, squares / weight - mean * mean) * windows / (windows - 1.0)
        return Prediction(mean, sqrt(variance * (1.0 + 1.0 / windows)), windows)

    def means(self) -> Sequence[float]:
        return self._values


class MeanModel(RecencyModel):
    """The paper's model: the plain mean of the sample, all windows alike."""

    def __init__(self, owners: int, history: Mapping[int, History] | None = None) -> None:
        super().__init__(owners, inf, history)


class Estimator:
    """Cuts cumulative counts into windows and feeds them to a model."""

    def __init__(self, owners: int, settings: StrategySettings) -> None:
        self._window_rows = settings.window_rows or 1
        self._horizon = float(settings.horizon_rows)
        self._seen: Sequence[int] = [0] * owners
        self._seen_total = 0
        self.windows = 0
        self.model: LoadModel = (
            MeanModel(owners, settings.history)
            if settings.model == "mean"
            else RecencyModel(owners, settings.half_life, settings.history)
        )

    def observe(self, routed: Sequence[int]) -> None:
        """Take the cumulative rows per owner; a window closes when enough rows have come since the last one."""
        total = sum(routed)
        rows = total - self._seen_total
        if rows < self._window_rows:
            return
        scale = self._horizon / rows
        self.model.add([(now - before) * scale for now, before in zip(routed, self._seen, strict=True)])
        self._seen, self._seen_total = routed, total
        self.windows += 1

    def predict(self, owner: int) -> Prediction:
        return self.model.predict(owner)

    def balanced(self, workers: Sequence[int]) -> None:
        """These workers have similar workloads now: their samples start anew (§4.3.1)."""
        for worker in workers:
            self.model.reset(worker)

    def history(self, owners: int) -> dict[int, History]:
        """What a later run of the same flow can be seeded with."""
        past = {}
        for owner in range(owners):
            seen = self.predict(owner)
            if seen.windows >= 1.5:
                windows = round(seen.windows)
                past[owner] = History(windows, seen.mean, seen.standard_error / sqrt(1.0 + 1.0 / seen.windows))
        return past

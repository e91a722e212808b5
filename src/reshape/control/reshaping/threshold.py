"""The skew detection threshold tau and its adaptation (§4.3.2, Algorithm 1; §6.1)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import inf

from reshape.control.sensing.observation import Observation
from reshape.control.settings import AdaptiveTau, StrategySettings

# Without a given range, the standard error is judged against the predicted gap between the two workers: at two
# fifths of it the share of phase two is a guess, at a fifth it is as good as it needs to be.
RELATIVE_LOW = 0.2
RELATIVE_HIGH = 0.4
# Growth without a given step: half again, which needs six adjustments for one decade.
RELATIVE_STEP = 0.5
RELATIVE_CEILING = 64.0
# Two or three windows can agree by chance; below so many, a small error does not lower tau.
WINDOWS_TO_LOWER = 5


class Change(Enum):
    KEPT = "kept"
    INCREASED = "increased"
    DECREASED = "decreased"


@dataclass(frozen=True, slots=True)
class Adjustment:
    """The outcome of one look at a pair: whether to mitigate now, and tau for the next time."""

    start: bool
    tau: float
    change: Change


def adjust_threshold(
    gap: float, tau: float, error: float, low: float, high: float, increased: float, floor: float = 0.0
) -> Adjustment:
    """Algorithm 1. ``gap`` is phi_S - phi_H, ``error`` the standard error of the prediction.

    A passed test always starts the mitigation; a large error raises tau for the next one. A test that is not
    passed although the error is already small lowers tau to the gap and starts at once.
    """
    if gap >= tau:
        if error > high:
            return Adjustment(True, max(tau, increased), Change.INCREASED)
        return Adjustment(True, tau, Change.KEPT)
    if error < low and gap >= floor and gap > 0:
        return Adjustment(True, gap, Change.DECREASED)
    return Adjustment(False, tau, Change.KEPT)


def start_earlier(tau: float, gap_share: float, rows_per_s: float, migration_s: float) -> float:
    """tau' (§6.1): detect so much earlier that the load transfer itself begins at tau."""
    return tau - gap_share * rows_per_s * migration_s


@dataclass(frozen=True, slots=True)
class Forecast:
    """What is predicted for a pair, in rows per horizon.

    error:    standard error, that of the less predictable worker
    gap:      difference of the loads that the two will receive as owners
    gap_left: what remains of it with the load that is shared already
    windows:  size of the sample
    """

    error: float
    gap: float
    gap_left: float
    windows: float

    @property
    def sure(self) -> bool:
        """The difference is more than noise: otherwise equal workers would be paired for their noise."""
        return self.gap_left > self.error and self.windows >= WINDOWS_TO_LOWER


class Threshold:
    """tau of one skewed worker, with the limits on how often and how far it may be adjusted."""

    def __init__(self, tau: float, adaptive: AdaptiveTau | None, eta: float = 0.0) -> None:
        self.tau = tau
        self.adjustments = 0
        self._adaptive = adaptive
        self._floor = eta
        self._ceiling = tau * RELATIVE_CEILING
        if adaptive is not None:
            self._floor = eta if adaptive.floor is None else adaptive.floor
            self._ceiling = self._ceiling if adaptive.ceiling is None else adaptive.ceiling

    def look(self, gap: float, forecast: Forecast, test_at: float | None = None) -> Adjustment:
        """Decide about a pair and adjust tau. ``test_at`` is tau' where migration takes time (§6.1)."""
        test_at = self.tau if test_at is None else test_at
        adaptive = self._adaptive
        if adaptive is None or self.adjustments >= adaptive.max_adjustments:
            return Adjustment(gap >= test_at, self.tau, Change.KEPT)
        low = adaptive.low if adaptive.low is not None else RELATIVE_LOW * forecast.gap
        high = adaptive.high if adaptive.high is not None else RELATIVE_HIGH * forecast.gap
        step = adaptive.increase_by if adaptive.increase_by is not None else self.tau * RELATIVE_STEP
        increased = max(self.tau, min(self.tau + step, self._ceiling))
        adjusted = adjust_threshold(
            gap, test_at, forecast.error, low if forecast.sure else 0.0, high, increased, max(self._floor, 1.0)
        )
        if adjusted.change is Change.KEPT or adjusted.tau == self.tau:
            return Adjustment(adjusted.start, self.tau, Change.KEPT)
        self.tau = adjusted.tau
        self.adjustments += 1
        return adjusted


class Thresholds:
    """tau of every worker."""

    def __init__(self, seen: Observation, settings: StrategySettings) -> None:
        self._seen = seen
        self._settings = settings
        self._by_worker: dict[int, Threshold] = {}

    def tau(self, worker: int) -> float:
        """The threshold that holds for a worker now."""
        threshold = None if self._seen.input_ended else self._by_worker.get(worker)
        return threshold.tau if threshold is not None else self._seen.first_tau

    def of(self, worker: int) -> Threshold:
        if self._seen.input_ended:  # tau was adjusted for predictions of input, of which there is none
            return Threshold(self._seen.first_tau, None, self._seen.eta)
        threshold = self._by_worker.get(worker)
        # A derived tau follows what is observed until it is adjusted: one long gap between reports must not fix it.
        if threshold is None or (self._settings.tau is None and not threshold.adjustments):
            tau = self._seen.first_tau
            threshold = Threshold(tau, self._settings.adaptive, self._seen.eta)
            if tau < inf:
                self._by_worker[worker] = threshold
        return threshold

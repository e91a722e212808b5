"""The newest report and what follows from it: speeds, rates, thresholds in rows."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite

from reshape.control.errors import require
from reshape.control.events import MetricsCollected
from reshape.control.profile import OperatorProfile
from reshape.control.routing import Key
from reshape.control.sensing.estimator import Estimator, Prediction
from reshape.control.sensing.migration import seconds_left
from reshape.control.sensing.scopes import HeavyScopes
from reshape.control.settings import StrategySettings
from reshape.control.workload import METRICS

# Thresholds that nobody set are a few report periods' worth of one worker's work: less than that is within what a
# worker clears, or a report misses, before anything could be done about it.
ETA_PERIODS = 2.0
TAU_PERIODS = 4.0
# Busy time is a share of each second, so its thresholds do not depend on speed (80 % busy is skewed, §7.12).
BUSY_ETA = 800.0
BUSY_TAU = 200.0
# Of the highest speed seen so much is kept from report to report: a worker that has become slow is known in seconds.
SPEED_KEPT = 0.97


class Observation:
    """Takes reports. Everything else in the brain asks it what the workers look like."""

    def __init__(
        self,
        profile: OperatorProfile,
        settings: StrategySettings,
        *,
        count_keys: bool = False,
        count_buckets: bool = False,
    ) -> None:
        """Keys and mini-partitions are counted for those brains only that choose among them."""
        count = profile.workers
        for skewed, helpers in (settings.fixed_helpers or {}).items():
            there = all(0 <= worker < count for worker in (skewed, *helpers))
            require(there, "fixed_helpers", {skewed: helpers}, f"{profile.name} has workers 0 to {count - 1}")
        self._settings = settings
        self._metric = METRICS[settings.metric]
        self._event: MetricsCollected | None = None
        self._keys = HeavyScopes(settings.heavy_keys) if count_keys else None
        self._buckets = HeavyScopes(settings.buckets_per_worker) if count_buckets else None
        self.estimator = Estimator(count, settings)
        self.workers = count
        self.time = 0.0
        self.period = 0.0
        self.workloads: Sequence[float] = [0.0] * count
        self.queued: Sequence[int] = [0] * count
        self.speed = 0.0  # rows/s of the fastest worker that had work all the time
        self.input_rate = 0.0  # rows/s that the operator takes in
        self.routed_total = 0
        self.input_ended = False  # set by the brain, which is told

    def take(self, event: MetricsCollected) -> bool:
        """Take a report in; False if it is older than the last one, the same, or does not fit the operator."""
        fits = all(
            len(column) == self.workers
            for column in (event.workload, event.processed, event.routed, event.received, event.state_bytes)
        )
        if not fits or not isfinite(event.time) or event.time < self.time:
            return False
        before = self._event
        workloads = self._metric(event)
        if (before is not None and before.id == event.id) or not all(map(isfinite, workloads)):
            return False
        self._event = event
        self.time = event.time
        self.workloads = workloads
        self.queued = event.workload
        routed = sum(event.routed)
        if before is not None and event.time > before.time:
            self.period = event.time - before.time
            self.input_rate = max(0.0, (routed - self.routed_total) / self.period)
            fastest = max(
                (
                    after - earlier
                    for after, earlier, left in zip(event.processed, before.processed, event.workload, strict=True)
                    if left > 0
                ),
                default=0,
            )
            # A worker that ran out of rows in between looks slow; what one has shown to be able to do is forgotten
            # slowly, or eta would shrink with the input and the last few rows count as a burden.
            self.speed = max(fastest / self.period, SPEED_KEPT * self.speed)
        self.routed_total = routed
        self.estimator.observe(event.routed)
        self._count_scopes(event)
        return True

    def _count_scopes(self, event: MetricsCollected) -> None:
        if self._keys is not None:
            self._keys.begin_report()
            for owner, counts in event.keys.items():
                self._keys.add(owner, counts)
        if self._buckets is not None:
            self._buckets.begin_report()
            for bucket, count in event.buckets.items():
                self._buckets.add(bucket % self.workers, {bucket: count})

    @property
    def eta(self) -> float:
        """Below this a worker is not burdened; infinite until speeds are known."""
        if self._settings.eta is not None:
            return self._settings.eta
        if self._settings.metric == "busy":
            return BUSY_ETA
        return ETA_PERIODS * self.period * self.speed or inf

    @property
    def idle(self) -> float:
        """Up to this a worker is idle: it clears that much between two reports."""
        return 0.0 if self._settings.metric == "busy" else self.period * self.speed

    @property
    def first_tau(self) -> float:
        """tau before any adjustment."""
        if self._settings.tau is not None:
            return self._settings.tau
        if self._settings.metric == "busy":
            return BUSY_TAU
        return TAU_PERIODS * self.period * self.speed or inf

    def predict(self, owner: int) -> Prediction:
        return self.estimator.predict(owner)

    def fraction(self, owner: int) -> float:
        """Predicted part of the operator's input that is bound for this owner (f-hat, §6.1)."""
        return self.predict(owner).mean / self._settings.horizon_rows

    def key_loads(self, owner: int) -> dict[Key, float]:
        """Predicted rows per horizon of an owner's heavy keys, heaviest first."""
        return {} if self._keys is None else self._keys.loads(owner, self.predict(owner).mean)

    def bucket_loads(self, owner: int) -> dict[Key, float]:
        """The same per mini-partition."""
        return {} if self._buckets is None else self._buckets.loads(owner, self.predict(owner).mean)

    def balanced(self, workers: Sequence[int]) -> None:
        """Samples of these workers start anew (§4.3.1)."""
        self.estimator.balanced(workers)
        if self._keys is not None:
            self._keys.fade(workers)

    def state_bytes(self, worker: int) -> int:
        return self._event.state_bytes[worker] if self._event is not None else 0

    @property
    def received(self) -> Sequence[int]:
        return self._event.received if self._event is not None else [0] * self.workers

    @property
    def routed(self) -> Sequence[int]:
        return self._event.routed if self._event is not None else [0] * self.workers

    @property
    def remaining(self) -> int | None:
        """Rows that sources have still to send, as far as they know."""
        return self._event.remaining if self._event is not None else None

    @property
    def input_left_s(self) -> float:
        """Seconds until the input ends, as far as anybody knows."""
        return seconds_left(self.remaining, self.input_rate)

    def backlog_left_s(self, worker: int) -> float:
        """Seconds that a worker needs for what waits for it now."""
        return seconds_left(self.queued[worker], self.speed)

"""Parameters of load transfer. None of them has to be set: what is left out is derived from what is observed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from math import isfinite
from typing import Any

from reshape.control.errors import require
from reshape.control.options import ROWS, SECONDS, Option, Read, count, flag, number, one_of, pairs
from reshape.control.profile import MOST_WORKERS
from reshape.control.workload import METRICS

MODELS = ("mean", "recency")


class FirstPhase(Enum):
    """What is redirected while the helper catches up (§3.2)."""

    ALL = "all"  # all future rows of the skewed worker
    PART = "part"  # only its heaviest keys: less state to move, slower to catch up
    OFF = "off"  # no first phase (§7.3)


@dataclass(frozen=True, slots=True)
class AdaptiveTau:
    """How tau follows the standard error of the prediction (§4.3.2, Algorithm 1).

    The preferred range [low, high] is in rows per horizon, as in the paper; left out, it follows the predicted
    gap between the two workers, so that "precise enough" means the same for small and large loads.
    """

    low: float | None = None
    high: float | None = None
    increase_by: float | None = None  # rows; left out, tau grows by half of itself
    max_adjustments: int = 3
    floor: float | None = None  # tau never falls below; left out, eta: less is no burden
    ceiling: float | None = None  # tau never rises above; left out, 64 times where it started

    def __post_init__(self) -> None:
        require(
            (self.low is None) == (self.high is None),
            "low, high",
            (self.low, self.high),
            "set both or neither",
        )
        if self.low is not None and self.high is not None:
            require(0 <= self.low <= self.high, "low, high", (self.low, self.high), "0 <= low <= high")
        if self.increase_by is not None:
            require(self.increase_by > 0, "increase_by", self.increase_by, "a number of rows above 0")
        require(self.max_adjustments >= 0, "max_adjustments", self.max_adjustments, "0 or more")
        for name in ("floor", "ceiling"):
            value = getattr(self, name)
            require(value is None or value > 0, name, value, "a number of rows above 0")
        if self.ceiling is not None and self.floor is not None:
            require(self.ceiling >= self.floor, "ceiling", self.ceiling, "not below the floor")


@dataclass(frozen=True, slots=True)
class History:
    """Load of one owner in an earlier run of the same flow: windows seen, mean and standard deviation."""

    windows: int
    mean: float
    deviation: float

    def __post_init__(self) -> None:
        require(self.windows >= 1, "windows", self.windows, "history has at least one window")
        require(self.deviation >= 0, "deviation", self.deviation, "0 or more")


def _adaptive(wanted: bool) -> AdaptiveTau | None:
    return AdaptiveTau() if wanted else None


def _helpers_of(text: str) -> dict[int, tuple[int, ...]]:
    """Helpers by skewed worker, from a text such as "0: 10 11, 6: 4"."""
    pair_texts = (pair.split(":") for pair in text.split(","))
    return {int(worker): tuple(map(int, helpers.split())) for worker, helpers in pair_texts}


def _option(
    default: Any, key: str, read: Read, name: str | None = None, convert: Callable[[Any], Any] | None = None
) -> Any:
    """A field that users can set. ``name`` where the option is not called like the field, ``convert`` where its value
    is not the field's."""
    return field(default=default, metadata={"key": key, "read": read, "name": name, "convert": convert})


@dataclass(frozen=True, slots=True)
class StrategySettings:
    """Everything that can be set for one operator, and the one place that says so.

    Those with an option can be set by users too: `OPTIONS` has them by name, and `with_options` takes their values.

    eta, tau:        skew test (§2.1) in the metric's unit; left out, a few report periods' worth of work
    adaptive:        how tau follows the error of predictions (§4.3.2); None, as an option false, keeps it fixed
    warmup_s:        no load is moved before; also the detection period of Flow-Join and Flux
    first_phase:     what is redirected while a helper catches up (§3.2): all rows, part (the heaviest keys), off (none)
    backlog:         move queued rows too (beyond the paper); ignored where order matters
    helpers:         helpers per skewed worker; None lets chi decide (§6.2)
    fixed_helpers:   only these pairs are mitigated, whatever else is skewed (for experiments)
    metric:          the workload: rows that wait (rows), or milliseconds a second that a worker is busy (busy, §7.12)
    model, half_life: "mean" (§4.3.2) or "recency", which forgets old windows by half each half_life windows
    window_rows:     rows per sample window; None closes a window at every report
    horizon_rows:    predictions are rows out of the next so many rows of the operator
    history:         load per owner from an earlier run, part of the sample until a pair is first balanced
    state_bytes_per_s: first guess of the state transfer speed, until one has been measured
    reduction_period_s: period over which load reduction is reported for unbounded input (§6.3)
    """

    eta: float | None = _option(None, "eta", number(1e-9, ROWS))
    tau: float | None = _option(None, "tau", number(1e-9, ROWS))
    adaptive: AdaptiveTau | None = _option(AdaptiveTau(), "adaptiveTau", flag, "adaptive_tau", _adaptive)  # noqa: RUF009
    warmup_s: float = _option(0.0, "warmup", number(0.0, SECONDS))
    helpers: int | None = _option(None, "helpers", count(MOST_WORKERS))
    backlog: bool = _option(True, "backlog", flag)
    first_phase: FirstPhase = _option(  # noqa: RUF009
        FirstPhase.ALL, "firstPhase", one_of([phase.value for phase in FirstPhase]), convert=FirstPhase
    )
    metric: str = _option("rows", "metric", one_of(METRICS))
    model: str = _option("mean", "model", one_of(MODELS))
    half_life: float = _option(8.0, "halfLife", number(1e-9, "a number of windows, more than 0"))
    window_rows: int | None = _option(None, "windowRows", count(2**62))
    horizon_rows: int = _option(2000, "horizonRows", count(2**62))
    fixed_helpers: Mapping[int, tuple[int, ...]] | None = _option(None, "fixedHelpers", pairs, convert=_helpers_of)
    history: Mapping[int, History] = field(default_factory=dict)
    heavy_keys: int = 64
    buckets_per_worker: int = 16
    max_denominator: int = 1000
    state_bytes_per_s: float = 100e6
    transfer_timeout_s: float = 30.0
    routing_timeout_s: float = 30.0
    reduction_period_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("eta", "tau", "reduction_period_s"):
            value = getattr(self, name)
            if value is not None:
                require(isfinite(value) and value > 0, name, value, "a number above 0, or None to derive it")
        for name in ("half_life", "state_bytes_per_s", "transfer_timeout_s", "routing_timeout_s"):
            value = getattr(self, name)
            require(isfinite(value) and value > 0, name, value, "a number above 0")
        require(isfinite(self.warmup_s) and self.warmup_s >= 0, "warmup_s", self.warmup_s, "0 or more seconds")
        for name in ("horizon_rows", "heavy_keys", "buckets_per_worker", "max_denominator"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "1 or more")
        if self.helpers is not None:
            require(self.helpers >= 1, "helpers", self.helpers, "1 or more, or None to let the brain choose")
        if self.window_rows is not None:
            require(self.window_rows >= 1, "window_rows", self.window_rows, "1 or more, or None")
        require(self.metric in METRICS, "metric", self.metric, f"one of {', '.join(METRICS)}")
        require(self.model in MODELS, "model", self.model, f"one of {', '.join(MODELS)}")
        if self.fixed_helpers is not None:
            _check_pairs(self.fixed_helpers)

    @classmethod
    def paper(cls, tau: float = 100.0, eta: float = 100.0, *, warmup_s: float = 2.0) -> StrategySettings:
        """As published: fixed tau, one helper, future rows only, two seconds before anything is moved (§7.1)."""
        return cls(eta=eta, tau=tau, adaptive=None, warmup_s=warmup_s, backlog=False, helpers=1)

    def with_options(self, options: Mapping[str, Any]) -> StrategySettings:
        """These settings with values of options, read as `OPTIONS` says, in place of their own."""
        converted = {}
        for name, value in options.items():
            field_of = _FIELDS[name]
            convert = field_of.metadata["convert"]
            converted[field_of.name] = value if convert is None else convert(value)
        return replace(self, **converted)


def _check_pairs(pairs: Mapping[int, tuple[int, ...]]) -> None:
    helpers = [helper for chosen in pairs.values() for helper in chosen]
    require(all(pairs.values()), "fixed_helpers", dict(pairs), "each skewed worker needs at least one helper")
    require(len(set(helpers)) == len(helpers), "fixed_helpers", dict(pairs), "a helper serves one skewed worker")
    require(not set(helpers) & set(pairs), "fixed_helpers", dict(pairs), "a helper cannot be a skewed worker too")


_FIELDS = {f.metadata["name"] or f.name: f for f in fields(StrategySettings) if f.metadata}

# What users can set for a strategy, by the names of options.
OPTIONS = {name: Option(name, f.metadata["key"], f.metadata["read"], per_operator=True) for name, f in _FIELDS.items()}

"""What is simulated: sources, operators, the network between them, and what goes wrong. Only data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite

from reshape.control.errors import require
from reshape.control.profile import OperatorProfile
from reshape.control.settings import StrategySettings


@dataclass(frozen=True, slots=True)
class InputPhase:
    """A stretch of input with one distribution: rows per key code, evenly mixed."""

    rows: Mapping[int, int]

    def __post_init__(self) -> None:
        for key, rows in self.rows.items():
            require(key >= 0, "key", key, "key codes are 0 or more")
            require(rows >= 0, f"rows of key {key}", rows, "0 or more")
        require(self.total > 0, "rows", self.total, "a phase has at least one row")

    @property
    def total(self) -> int:
        return sum(self.rows.values())


@dataclass(frozen=True, slots=True)
class Bursts:
    """Keys come in waves: in each period a key's rate is multiplied by a gamma factor with mean one.

    A key's total stays what the phase says.
    """

    period_s: float
    variation: float  # coefficient of variation of the factor

    def __post_init__(self) -> None:
        _above_zero("period_s", self.period_s)
        _above_zero("variation", self.variation)


@dataclass(frozen=True, slots=True)
class Source:
    """The input of the first operator: phases one after the other, at a constant rate."""

    phases: tuple[InputPhase, ...]
    rows_per_s: float
    bursts: Bursts | None = None

    def __post_init__(self) -> None:
        require(bool(self.phases), "phases", self.phases, "a source has at least one phase")
        _above_zero("rows_per_s", self.rows_per_s)

    @property
    def total(self) -> int:
        return sum(phase.total for phase in self.phases)


@dataclass(frozen=True, slots=True)
class Network:
    """Delays and speeds.

    routing_delay_s: routers take so long to act on a new table (§7.5), once per table
    serialise_bytes_per_s: paid once per state transfer; link_bytes_per_s once per helper
    row_bytes: size of a row when queued rows or scattered parts travel between workers
    """

    link_latency_s: float = 0.001
    control_latency_s: float = 0.001
    routing_delay_s: float = 0.0
    serialise_bytes_per_s: float = 1e9
    link_bytes_per_s: float = 1e9
    row_bytes: int = 100

    def __post_init__(self) -> None:
        for name in ("link_latency_s", "control_latency_s", "routing_delay_s", "row_bytes"):
            value = getattr(self, name)
            require(isfinite(value) and value >= 0, name, value, "0 or more")
        for name in ("serialise_bytes_per_s", "link_bytes_per_s"):
            _above_zero(name, getattr(self, name))


@dataclass(frozen=True, slots=True)
class Stage:
    """One operator with its workers.

    speed:       rows per second of a worker, one number for all or one for each
    state_bytes: keyed state of a worker
    queue_rows:  bound of a worker's queue; a full queue makes the source wait. None has no bound
    input:       distribution of a later stage's input, which flows as the stage before it finishes rows
    displayed:   keys whose processed rows a user watches
    """

    profile: OperatorProfile
    speed: float | tuple[float, ...]
    settings: StrategySettings = field(default_factory=StrategySettings)
    state_bytes: int = 0
    queue_rows: int | None = None
    input: tuple[InputPhase, ...] = ()
    displayed: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        workers = self.profile.workers
        if isinstance(self.speed, tuple):
            require(
                len(self.speed) == workers,
                "speed",
                len(self.speed),
                f"one speed for each of {workers} workers",
            )
        for speed in self.speeds:
            _above_zero("speed", speed)
        require(self.state_bytes >= 0, "state_bytes", self.state_bytes, "0 or more")
        if self.queue_rows is not None:
            require(self.queue_rows >= 1, "queue_rows", self.queue_rows, "1 or more, or None for no bound")

    @property
    def speeds(self) -> tuple[float, ...]:
        return self.speed if isinstance(self.speed, tuple) else (self.speed,) * self.profile.workers


@dataclass(frozen=True, slots=True)
class Failures:
    """What goes wrong, by the scenario's seed: the share of transfers that fail, of acks that are lost."""

    transfers: float = 0.0
    acks: float = 0.0
    first_transfers: int = 0  # so many transfers fail for certain

    def __post_init__(self) -> None:
        for name in ("transfers", "acks"):
            require(0 <= getattr(self, name) <= 1, name, getattr(self, name), "a share from 0 to 1")
        require(self.first_transfers >= 0, "first_transfers", self.first_transfers, "0 or more")


@dataclass(frozen=True, slots=True)
class Scenario:
    """All of a run but its brains.

    tick_s:   the source sends a group of rows so often
    report_s: each operator reports to its brain so often
    display_s: the user's display, and with it the recorded series, moves so often
    watermark_s: operators have to output what they have so often (§6.3); None for bounded input
    """

    source: Source
    stages: tuple[Stage, ...]
    network: Network = field(default_factory=Network)
    failures: Failures | None = None
    tick_s: float = 0.1
    report_s: float = 0.5
    display_s: float = 0.5
    watermark_s: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        require(bool(self.stages), "stages", self.stages, "a scenario has at least one operator")
        for name in ("tick_s", "report_s", "display_s"):
            _above_zero(name, getattr(self, name))
        if self.watermark_s is not None:
            _above_zero("watermark_s", self.watermark_s)
        for stage in self.stages[1:]:
            name = stage.profile.name
            require(bool(stage.input), f"input of {name}", stage.input, "a later stage needs its key distribution")
            require(
                stage.queue_rows is None,
                f"queue_rows of {name}",
                stage.queue_rows,
                "only the source can wait",
            )


def _above_zero(name: str, value: float) -> None:
    require(isfinite(value) and value > 0, name, value, "a number above 0")

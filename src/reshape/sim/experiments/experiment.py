"""What an experiment is: parameters, cases to run, and the figure to draw. Everything else is shared."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Generic, TypeVar

from reshape.control.errors import ParameterError, require
from reshape.control.strategies import STRATEGIES

P = TypeVar("P")

Summary = dict[str, Any]
Series = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """One strategy in one setting. ``measure`` runs it."""

    name: str
    strategy: str
    measure: Callable[[], tuple[Summary, Series]]


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart: lines over x, or a bar or candlestick per label."""

    title: str
    x: str
    y: str
    lines: Mapping[str, tuple[Sequence[float], Sequence[float | None]]] = field(default_factory=dict)
    bars: Mapping[str, float | None] = field(default_factory=dict)
    candles: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    at: float | None = None  # a level worth marking


@dataclass(frozen=True, slots=True)
class Outcome:
    """What ``reshape simulate`` prints."""

    experiment: str
    params: Mapping[str, Any]
    series: Mapping[str, Series]
    summary: Mapping[str, Summary]

    def as_json(self) -> dict[str, Any]:
        return {
            "experiment": self.experiment,
            "engine": "simulator",
            "params": self.params,
            "series": self.series,
            "summary": self.summary,
        }


@dataclass(frozen=True, slots=True)
class Experiment(Generic[P]):
    """A figure of the paper. ``cases`` builds the list, nothing runs before a case is measured."""

    name: str
    section: str
    title: str
    look_at: str
    paper: str
    params: P
    cases: Callable[[P, int], list[Case]]
    figure: Callable[[Outcome], list[Panel]]
    columns: tuple[str, ...] = ()  # what a table shows beside the numbers that all cases have

    def run(
        self,
        strategies: Collection[str] = (),
        *,
        seed: int = 0,
        settings: Mapping[str, str] | None = None,
        on_case: Callable[[str, int, int], None] = lambda name, number, cases: None,
    ) -> Outcome:
        """Measure the cases of these strategies, all if none are named. ``on_case`` hears which begins: its name, its
        number from 0 on, and how many there are."""
        params = with_settings(self.params, settings or {})
        cases = self.cases(params, seed)
        for strategy in strategies:
            offered = sorted({case.strategy for case in cases})
            require(strategy in STRATEGIES, "strategy", strategy, f"one of {', '.join(STRATEGIES)}")
            require(strategy in offered, "strategy", strategy, f"{self.name} has {', '.join(offered)}")
        summary: dict[str, Summary] = {}
        series: dict[str, Series] = {}
        wanted = [case for case in cases if not strategies or case.strategy in strategies]
        for number, case in enumerate(wanted):
            on_case(case.name, number, len(wanted))
            summary[case.name], series[case.name] = case.measure()
        return Outcome(self.name, {**asdict(params), "seed": seed}, series, summary)  # type: ignore[call-overload]


def with_settings(params: P, settings: Mapping[str, str]) -> P:
    """The parameters with some of them replaced, each read as what it was."""
    current = {each.name: getattr(params, each.name) for each in fields(params)}  # type: ignore[arg-type]
    changes = {}
    for name, text in settings.items():
        require(name in current, "--set", name, f"one of {', '.join(current)}")
        before = current[name]
        try:
            changes[name] = (
                tuple(type(before[0])(part) for part in text.split(","))
                if isinstance(before, tuple)
                else type(before)(text)
            )
        except ValueError:
            raise ParameterError(name, text, f"a value like {before!r}") from None
    return replace(params, **changes)  # type: ignore[type-var]

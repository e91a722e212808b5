"""§7.8, figure 22: the input distribution changes in mid-run (W4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial

from reshape.control.errors import require
from reshape.control.profile import OperatorProfile
from reshape.control.settings import StrategySettings
from reshape.control.strategies import build
from reshape.datasets.synthetic import RISING_KEY, SKEWED_KEY, changing_distribution
from reshape.sim.experiments.experiment import Case, Experiment, Outcome, Panel, Series, Summary
from reshape.sim.experiments.measuring import Pair, Ratio, series_of, summarise
from reshape.sim.recorder import OperatorRun
from reshape.sim.scenario import InputPhase, Scenario, Source, Stage
from reshape.sim.simulation import simulate

SKEWED, HELPER = 0, 10


@dataclass(frozen=True, slots=True)
class ChangingParams:
    """W4: 20 M rows at ``rows_per_s`` take the paper's 80 s. Worker speed keeps both workers loaded meanwhile.

    settled_s: so long after the change the range of the ratio is taken from here on
    """

    workers: int = 40
    rows_per_s: float = 250_000.0
    speed: float = 60_000.0
    tau: float = 2_000.0
    eta: float = 100.0
    warmup_s: float = 2.0
    report_s: float = 0.5
    settled_s: float = 40.0
    displayed: str = "key 0:key 10"

    def __post_init__(self) -> None:
        require(self.workers > HELPER, "workers", self.workers, f"worker {HELPER} is the helper")


def _run(params: ChangingParams, seed: int, strategy: str) -> OperatorRun:
    before, after = changing_distribution()
    fixed = {SKEWED: (HELPER,)}
    paper = replace(StrategySettings.paper(params.tau, params.eta, warmup_s=params.warmup_s), fixed_helpers=fixed)
    settings = StrategySettings(fixed_helpers=fixed) if strategy == "reshape" else paper
    profile = OperatorProfile("join", params.workers)
    stage = Stage(profile, params.speed, settings, displayed=(SKEWED_KEY, RISING_KEY))
    source = Source((InputPhase(before), InputPhase(after)), params.rows_per_s)
    scenario = Scenario(source, (stage,), report_s=params.report_s, seed=seed)
    (run,) = simulate(scenario, build(strategy, profile, settings))
    return run


def _measure(params: ChangingParams, run_of: Callable[[str], OperatorRun], strategy: str) -> tuple[Summary, Series]:
    run, unmitigated = run_of(strategy), run_of("none")
    pair = Pair("key 0", SKEWED, (HELPER,))
    ratio = Ratio(params.displayed, SKEWED_KEY, RISING_KEY)
    summary = summarise(run, [pair], ratio, unmitigated.total_s)
    change_s = sum(changing_distribution()[0].values()) / params.rows_per_s
    course = [
        loads[HELPER] / loads[SKEWED] if loads[SKEWED] else None
        for loads, time in zip(run.record.workload, run.record.times, strict=True)
        if time <= run.input_s
    ]
    times = run.record.times[: len(course)]
    settled = [r for t, r in zip(times, course, strict=True) if t >= change_s + params.settled_s and r is not None]
    extra = {
        "helper_to_skewed": round(course[-1] or 0.0, 4),
        "helper_to_skewed_settled": {"min": round(min(settled), 4), "max": round(max(settled), 4)},
        "change_s": change_s,
        "input_s": round(run.input_s, 3),
    }
    series = series_of(run, [pair], [ratio])
    workload = series["workload"]
    series["helper_to_skewed"] = [
        round(helper / skewed, 4) if skewed else None
        for helper, skewed in zip(workload[str(HELPER)], workload[str(SKEWED)], strict=True)
    ]
    return summary | extra, series


def _cases(params: ChangingParams, seed: int) -> list[Case]:
    strategies = ("none", "flux", "flow-join", "reshape-paper", "reshape")
    run_of = cache(partial(_run, params, seed))  # the unmitigated run is needed for every case
    return [Case(strategy, strategy, partial(_measure, params, run_of, strategy)) for strategy in strategies]


def _figure(outcome: Outcome) -> list[Panel]:
    end = max((numbers["input_s"] for numbers in outcome.summary.values()), default=0.0)
    lines = {}
    for case, course in outcome.series.items():
        kept = [i for i, time in enumerate(course["time"]) if time <= end]
        lines[case] = ([course["time"][i] for i in kept], [course["helper_to_skewed"][i] for i in kept])
    title = "Changes in input distribution (at 80 s)"
    return [Panel(title, "seconds", "workload of helper : skewed worker", lines=lines, at=1.0)]


CHANGING_DISTRIBUTION = Experiment(
    name="changing-distribution",
    section="§7.8",
    title="Effect of changes in the input distribution",
    look_at="helper_to_skewed: the ratio of the two workloads at the end of the input; 1 is balance",
    paper="Reshape stays close to 1, Flux close to 0, Flow-Join's helper gets 50 % and its skewed worker 30 %",
    params=ChangingParams(),
    cases=_cases,
    figure=_figure,
    columns=("helper_to_skewed", "helper_to_skewed_settled"),
)

"""The two runs behind `reshape demo`, and what they come to in words."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from reshape.control.profile import OperatorProfile
from reshape.control.strategies import build
from reshape.datasets.months import DECEMBER, NAMES, OCTOBER, WORKERS, tweets_per_month
from reshape.sim import metrics
from reshape.sim.recorder import OperatorRun
from reshape.sim.scenario import Phase, Scenario, Source, Stage
from reshape.sim.simulation import simulate

TWEETS = 6_000_000
UNMITIGATED_S = 60.0  # J6 needs so long for its own rows
INPUT_S = 12.0  # sources are faster than the join, as the paper assumes
DISPLAY_S = 0.1
J6 = 0  # June and December: codes 6 and 12 modulo 6 workers


@dataclass(frozen=True, slots=True)
class DemoRun:
    """One recorded run, to be replayed."""

    title: str
    run: OperatorRun

    @property
    def total_s(self) -> float:
        return self.run.total_s

    def shown(self, at_s: float) -> dict[int, int]:
        """Rows per month on the display at a moment."""
        times = self.run.record.times
        # The last display point comes up to a period after the end, and is what stays on the screen.
        index = len(times) - 1 if at_s >= self.total_s else bisect_right(times, at_s) - 1
        months = self.run.record.displayed
        if index < 0:
            return dict.fromkeys(months, 0)
        return dict(zip(months, self.run.record.shown[index], strict=True))

    def ratio(self, at_s: float) -> float | None:
        counts = self.shown(at_s)
        return counts[DECEMBER] / counts[OCTOBER] if counts[OCTOBER] else None

    @property
    def representative_s(self) -> float:
        """When December : October was right for good."""
        record = self.run.record
        final = self.run.by_key[DECEMBER] / self.run.by_key[OCTOBER]
        reached = metrics.time_to_representative(record.times, record.ratio(DECEMBER, OCTOBER), final)
        return min(reached, self.total_s)


class Demo:
    """Both strategies on the same tweets."""

    def __init__(self) -> None:
        self.final = tweets_per_month(TWEETS)
        self.months = dict(enumerate(NAMES, start=1))
        self.watched = {OCTOBER: "bold yellow", DECEMBER: "bold magenta"}
        self.final_ratio = self.final[DECEMBER] / self.final[OCTOBER]
        self.runs = [DemoRun("no mitigation", self._run("none")), DemoRun("reshape", self._run("reshape"))]

    @property
    def length_s(self) -> float:
        return max(run.total_s for run in self.runs)

    def conclusion(self) -> list[str]:
        """What happened, in words and numbers."""
        plain, ours = self.runs
        length = plain.total_s
        moved = ours.run.received
        lines = [
            f"Without mitigation December : October was right for good after {plain.representative_s:.1f} s of "
            f"{length:.1f} s ({plain.representative_s / length:.0%}).",
            f"With Reshape it was after {ours.representative_s:.1f} s ({ours.representative_s / length:.0%} of the "
            f"unmitigated run), and the join ended after {ours.total_s:.1f} s instead of {length:.1f} s.",
            f"For that the state of {ours.run.state_transfers} partitions was copied and "
            f"{ours.run.backlog_rows:,} queued rows changed workers; J6 processed {moved[J6]:,} of its "
            f"{ours.run.routed[J6]:,} rows itself.",
            "",
            "The story of J6's worker (number 0), as its brain tells it:",
        ]
        return lines + [f"  {line}" for line in ours.run.brain.story(J6)]

    def _run(self, strategy: str) -> OperatorRun:
        profile = OperatorProfile("join", WORKERS)
        busiest = sum(rows for month, rows in self.final.items() if month % WORKERS == J6)
        stage = Stage(profile, busiest / UNMITIGATED_S, state_bytes=1_000_000, displayed=tuple(self.final))
        source = Source((Phase(self.final),), TWEETS / INPUT_S)
        scenario = Scenario(source, (stage,), tick_s=0.05, report_s=0.25, display_s=DISPLAY_S)
        (run,) = simulate(scenario, build(strategy, profile))
        return run

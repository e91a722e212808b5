"""What `reshape demo` draws: two bar charts at one moment, and the closing summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from reshape.datasets.months import DECEMBER, NAMES, OCTOBER
from reshape.sim.metrics import TOLERANCE

if TYPE_CHECKING:
    from reshape.cli.demo_run import Demo, DemoRun

WATCHED = {OCTOBER: "bold yellow", DECEMBER: "bold magenta"}
WIDEST = 120  # wider bars say nothing more
BESIDE = 56  # columns that two charts beside each other need
NAME, COUNT = 3, 6  # columns of a month's name and of its count
AROUND = 5  # lines of a chart that are no bars, and the last line
STORY_LINES = 4


def frame(demo: Demo, width: int, height: int) -> RenderableType:
    """Both charts as they are now, beside each other where there is room. Few lines leave the watched months only."""
    width = min(width, WIDEST)
    beside = width >= BESIDE
    needed = (len(NAMES) + AROUND) * (1 if beside else 2)
    months = list(range(1, len(NAMES) + 1)) if height > needed else list(WATCHED)
    each = (width - 3) // 2 if beside else width - 1
    charts = [_chart(run, months, each) for run in demo.runs]
    lines: list[RenderableType] = list(charts)
    if beside:
        table = Table.grid(padding=(0, 2, 0, 0))
        for _ in charts:
            table.add_column(width=each)
        table.add_row(*charts)
        lines = [table]
    return Group(*lines, _line(_emulated(demo), "dim"))


def _chart(run: DemoRun, months: list[int], width: int) -> RenderableType:
    """Bars are scaled to the final counts, whose ends are marked."""
    state = f", done after {run.seconds:.1f} s" if run.done else f"  {run.seconds:.1f} s" if run.shown else ", starting"
    bars = Table.grid(padding=(0, 1, 0, 0))
    room = max(5, width - NAME - COUNT - 2)
    bars.add_column(width=NAME)
    bars.add_column(width=room)
    bars.add_column(width=COUNT, justify="right")
    tallest = max(run.final.values())
    for month in months:
        style = WATCHED.get(month, "blue")
        count = run.shown.get(month, 0)
        name = Text(NAMES[month - 1], style if month in WATCHED else "dim")
        bar = _bar(count, run.final[month], tallest, room, style)
        bars.add_row(name, bar, Text(f"{count / 1000:,.1f}k", style, no_wrap=True))
    return Group(_line(f"{run.title}{state}", "bold"), bars, _ratio_line(run), _trust_line(run))


def _bar(count: int, final: int, tallest: int, width: int, style: str) -> Text:
    filled = round(count / tallest * (width - 1))
    end = round(final / tallest * (width - 1))
    bar = Text("█" * filled, style, no_wrap=True)
    bar.append(" " * max(0, end - filled))
    bar.append("│", "dim")
    return bar


def _ratio_line(run: DemoRun) -> Text:
    ratio = run.ratio
    right = ratio is not None and abs(ratio - run.final_ratio) <= TOLERANCE * run.final_ratio
    text = _line("Dec:Oct ", "bold")
    text.append("-" if ratio is None else f"{ratio:.1f}", "bold green" if right else "bold red")
    text.append(f", in the end {run.final_ratio:.1f}")
    return text


def _trust_line(run: DemoRun) -> Text:
    share = run.representativeness
    return _line("" if share is None else f"{share:.0%} representative of its input")


def _emulated(demo: Demo) -> str:
    return f"emulated: a row costs {1000 * demo.cost_s:.2f} ms in the join, all are sent in {demo.input_s:.0f} s"


def _line(text: str, style: str = "") -> Text:
    return Text(text, style, no_wrap=True, overflow="ellipsis")


def summary(demo: Demo) -> list[RenderableType]:
    """What happened, in numbers and in words."""
    plain, ours = demo.runs
    length = plain.seconds
    table = Table.grid(padding=(0, 3, 0, 0))
    table.add_column()
    for _ in demo.runs:
        table.add_column(justify="right")
    table.add_row("", *(Text(run.title, "bold") for run in demo.runs))
    table.add_row("total time", *(f"{run.seconds:.1f} s" for run in demo.runs))
    table.add_row("Dec:Oct right for good after", *(f"{run.representative_s:.1f} s" for run in demo.runs))
    table.add_row("ttr (part of the unmitigated run)", *(f"{run.representative_s / length:.2f}" for run in demo.runs))
    moved = [run.transfers() for run in demo.runs]
    table.add_row("transfers", *(f"{each.all:,}" for each in moved))
    table.add_row("  state copied to a helper", *(f"{each.copies:,}" for each in moved))
    table.add_row("  queued rows moved", *(f"{each.moves:,}" for each in moved))
    table.add_row("  changes of routing", *(f"{each.tables:,}" for each in moved))
    table.add_row("tweets counted", *(f"{sum(run.shown.values()):,}" for run in demo.runs))
    return [table, "", *_words(demo), "", *_story(ours)]


def _words(demo: Demo) -> list[RenderableType]:
    plain, ours = demo.runs
    alone, shared = plain.processed(), ours.processed()
    skewed = max(alone, key=lambda worker: sum(alone[worker].values()))
    rows = sum(alone[skewed].values())
    moved = ours.transfers()
    return [
        f"Both flows counted what Spark itself counts. In the end December has {demo.final_ratio:.1f} times October's "
        "tweets, and its worker the most rows of all: without mitigation its bar grows no faster than October's.",
        f"With Reshape the chart had the right shape after {ours.representative_s:.1f} s instead of "
        f"{plain.representative_s:.1f} s, and the flow ended after {ours.seconds:.1f} s instead of "
        f"{plain.seconds:.1f} s. Of the {rows:,} tweets of worker {skewed} (December and June) it processed "
        f"{shared[skewed].get(skewed, 0):,} itself, helpers the others; {moved.moved_rows:,} rows changed workers in "
        "the queues.",
        "Seconds count from the first bar.",
    ]


def _story(run: DemoRun) -> list[RenderableType]:
    story = run.query.story()
    more = len(story) - STORY_LINES
    told: list[RenderableType] = ["How it went, as query.story() tells it (seconds from when the workers were ready):"]
    told += [Padding(Text(line), (0, 0, 0, 2)) for line in story[:STORY_LINES]]
    return [*told, f"  ... and {more} more"] if more > 0 else told

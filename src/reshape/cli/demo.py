"""`reshape demo`: covid tweets per month, as a user watches them with and without Reshape (Figure 1 of the paper)."""

import argparse
import sys
import time
from typing import TYPE_CHECKING

from reshape.sim.metrics import TOLERANCE

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from reshape.cli.demo_run import Demo

FRAMES_PER_S = 10
WALL_S = 20.0
SNAPSHOTS = (0.03, 0.1, 0.3, 0.6, 1.0)  # parts of the unmitigated run, for output that cannot move


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser(
        "demo",
        help="watch a skewed join with and without Reshape, in the simulator",
        description="Tweets about covid are joined by month on six workers, in virtual time. The bars are what a "
        "user sees: without mitigation on the left, with Reshape on the right.",
    )
    parser.add_argument("--fast", action="store_true", help="print a few snapshots instead of playing for 20 s")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from rich.console import Console

    from reshape.cli.demo_run import Demo

    console = Console(file=sys.stdout, highlight=False)
    demo = Demo()
    console.print(
        "Tweets about covid, counted per month while a join on six workers runs. Worker J6 owns June and December, "
        "more than a quarter of all rows. December has 4.2 times October's tweets: when does the chart show that?\n",
        style="dim",
    )
    if arguments.fast or not console.is_terminal:
        for part in SNAPSHOTS:
            console.print(frame(demo, part * demo.length_s, width=_width(console)))
            console.print()
    else:
        play(console, demo)
    for line in demo.conclusion():
        console.print(line)
    return 0


def play(console: "Console", demo: "Demo") -> None:
    """Show the two runs side by side, virtual time paced to the wall clock."""
    from rich.live import Live

    began = time.monotonic()
    with Live(console=console, auto_refresh=False) as live:
        while True:
            part = min(1.0, (time.monotonic() - began) / WALL_S)
            live.update(frame(demo, part * demo.length_s, width=_width(console)), refresh=True)
            if part == 1.0:
                return
            time.sleep(1 / FRAMES_PER_S)


def frame(demo: "Demo", at_s: float, width: int) -> "RenderableType":
    """Both charts at one moment. Bars are scaled to the final counts, whose ends are marked."""
    from rich.console import Group, RenderableType
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 1))
    bar_width = max(10, (width - 4 - 2 * 6 - 5) // 2)
    table.add_column(width=3)
    for _ in demo.runs:
        table.add_column(width=bar_width)
        table.add_column(width=5, justify="right")
    header: list[RenderableType] = [""]
    foot: list[RenderableType] = [""]
    for run in demo.runs:
        done = f", done ({run.total_s:.0f} s)" if at_s >= run.total_s else ""
        header += [Text(run.title + done, "bold"), Text("k", "dim")]
        foot += [_ratio_line(demo, run.ratio(at_s)), ""]
    table.add_row(*header)
    tallest = max(demo.final.values())
    for month, name in demo.months.items():
        style = demo.watched.get(month, "blue")
        row: list[RenderableType] = [Text(name, style if month in demo.watched else "dim")]
        for run in demo.runs:
            count = run.shown(at_s)[month]
            row += [_bar(count, demo.final[month], tallest, bar_width, style), Text(f"{count / 1000:,.0f}", style)]
        table.add_row(*row)
    table.add_row(*foot)
    clock = Text(f"virtual time {at_s:5.1f} s of {demo.length_s:.1f} s", "dim")
    return Group(table, clock)


def _bar(count: int, final: int, tallest: int, width: int, style: str) -> "RenderableType":
    from rich.text import Text

    filled = round(count / tallest * (width - 1))
    end = round(final / tallest * (width - 1))
    bar = Text("█" * filled, style)
    bar.append(" " * max(0, end - filled))
    bar.append("│", "dim")
    return bar


def _ratio_line(demo: "Demo", ratio: float | None) -> "RenderableType":
    from rich.text import Text

    right = ratio is not None and abs(ratio - demo.final_ratio) <= TOLERANCE * demo.final_ratio
    text = Text("Dec:Oct ", "bold")
    text.append("-" if ratio is None else f"{ratio:.1f}", "bold green" if right else "bold red")
    text.append(f" (final {demo.final_ratio:.1f})")
    return text


def _width(console: "Console") -> int:
    # Wider bars say nothing more.
    return min(console.width, 110)

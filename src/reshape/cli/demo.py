"""`reshape demo`: covid tweets per month on Spark, as a user watches them with and without Reshape (Figure 1)."""

import contextlib
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from reshape.cli import options

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from rich.console import Console

    from reshape.cli.demo_run import Demo, Size

SNAPSHOTS = (0.1, 0.3, 0.6, 0.9)  # parts of the unmitigated run, for output that cannot move
WHAT_WAS_REAL = (
    "What was real: Spark, both flows, every transfer of load, the files and the seconds of the last part. What was "
    "emulated, by waiting: the cost of a row in the join of the charts, and the pace of its input."
)
PLAIN_HEIGHT = 100  # lines that never scroll away need no sparing


def add(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer tweets: 8 s instead of 45 s, and start-up.")] = False,
    opens: options.Open = False,
) -> int:
    """Watch a skewed join on Spark with and without Reshape.

    Tweets about covid are joined with the cases of their month and counted, by two flows in one local Spark session:
    without mitigation on the left, with Reshape on the right. The bars are what a user sees while they run. Then a
    query runs on Parquet files that are made for it, by Spark alone and as a flow.
    """
    from rich.console import Console

    from reshape.cli.browser import ready_page
    from reshape.cli.demo_run import FULL, QUICK, SLOTS, DemoFailed
    from reshape.cli.queries import in_words
    from reshape.cli.running import saying
    from reshape.cli.spark_session import quiet_session, said_last, scratch_directory
    from reshape.errors import ReshapeError

    if opens:
        ready_page()
    console = Console(file=sys.stdout, highlight=False)
    size = QUICK if quick else FULL
    console.print(
        f"{size.tweets:,} tweets about covid, joined with the cases of their month and counted, on six workers. "
        "One of them has June and December, a quarter of all tweets; October is another's. December has four times "
        "October's tweets: when does the chart show that?\n",
        style="dim",
    )
    with scratch_directory() as directory, contextlib.ExitStack() as session:
        with saying(console, "starting Spark (some seconds)"):
            spark = session.enter_context(quiet_session(directory, f"local[{SLOTS}]"))
        try:
            perform(console, spark, size, directory, opens=opens)
        except ReshapeError:
            raise
        except Exception as error:  # told before Spark ends, which has the words
            said = said_last(directory)
            raise DemoFailed(f"{type(error).__name__}: {in_words(error)}{said and f'; Spark said: {said}'}") from error
    return 0


def perform(console: "Console", spark: "SparkSession", size: "Size", directory: "Path", *, opens: bool) -> None:
    """Both flows, then the real files."""
    from reshape.cli.browser import hold_page, show_page
    from reshape.cli.demo_chart import summary
    from reshape.cli.demo_files import files_part
    from reshape.cli.demo_run import Demo
    from reshape.cli.running import moves, saying

    with contextlib.ExitStack() as flows:
        with saying(console, "asking Spark itself, to know where each bar will end"):
            demo = Demo(spark, size, directory)
        flows.callback(demo.cancel)
        demo.start()
        if opens:
            show_page(console, demo.runs[1].query.url)
        if moves(console):
            play(console, demo)
        else:
            print_snapshots(console, demo, size.unmitigated_s)
        console.print()
        for part in summary(demo):
            console.print(part, markup=False)
        console.print()
        files = files_part(console, spark, directory, size.sales)
        console.print(files.words(), markup=False)
        console.print(f"\n{WHAT_WAS_REAL}", markup=False)
        if opens:
            hold_page(console)


def play(console: "Console", demo: "Demo") -> None:
    """Both charts, drawn again and again in the same place."""
    from rich.live import Live

    from reshape.cli.demo_chart import frame

    with Live(console=console, auto_refresh=False) as live:
        demo.watch(lambda: live.update(frame(demo, console.width, console.height), refresh=True))


def print_snapshots(console: "Console", demo: "Demo", unmitigated_s: float) -> None:
    """The charts at some moments, for output that cannot move, and as they are at the end."""
    from reshape.cli.demo_chart import frame

    left = [part * unmitigated_s for part in SNAPSHOTS]

    def show() -> None:
        if left and demo.runs[0].seconds >= left[0]:
            while left and demo.runs[0].seconds >= left[0]:
                left.pop(0)
            console.print(frame(demo, console.width, PLAIN_HEIGHT))
            console.print()

    demo.watch(show)
    console.print(frame(demo, console.width, PLAIN_HEIGHT))

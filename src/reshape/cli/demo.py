"""`reshape demo`: covid tweets per month on Spark, as a user watches them with and without Reshape (Figure 1)."""

import argparse
import contextlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rich.console import Console

    from reshape.cli.demo_run import Demo, Size

SNAPSHOTS = (0.1, 0.3, 0.6, 0.9)  # parts of the unmitigated run, for output that cannot move
PLAIN_HEIGHT = 100  # lines that never scroll away need no sparing


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser(
        "demo",
        help="watch a skewed join on Spark with and without Reshape",
        description="Tweets about covid are joined with the cases of their month and counted, by two flows in one "
        "local Spark session: without mitigation on the left, with Reshape on the right. The bars are what a user "
        "sees while they run.",
    )
    parser.add_argument("--quick", action="store_true", help="fewer tweets: some 8 s instead of 45 s, and start-up")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from rich.console import Console

    from reshape.cli.demo_run import FULL, QUICK, DemoFailed
    from reshape.cli.demo_session import demo_directory, said_last
    from reshape.errors import ReshapeError

    console = Console(file=sys.stdout, highlight=False)
    size = QUICK if arguments.quick else FULL
    console.print(
        f"{size.tweets:,} tweets about covid, joined with the cases of their month and counted, on six workers. "
        "One of them has June and December, a quarter of all tweets; October is another's. December has four times "
        "October's tweets: when does the chart show that?\n",
        style="dim",
    )
    with demo_directory() as directory:
        try:
            perform(console, size, directory)
        except ReshapeError:
            raise
        except Exception as error:
            first = str(error).strip().partition("\n")[0]
            said = said_last(directory)
            raise DemoFailed(f"{type(error).__name__}: {first}{said and f'; Spark said: {said}'}") from error
    return 0


def perform(console: "Console", size: "Size", directory: "Path") -> None:
    """From the start of Spark to its end."""
    from reshape.cli.demo_chart import summary
    from reshape.cli.demo_run import SLOTS, Demo
    from reshape.cli.demo_session import quiet_session

    with contextlib.ExitStack() as session:
        with saying(console, "starting Spark (some seconds)"):
            spark = session.enter_context(quiet_session(directory, SLOTS))
        with saying(console, "asking Spark itself, to know where each bar will end"):
            demo = Demo(spark, size, directory)
        session.callback(demo.cancel)
        demo.start()
        if moves(console):
            play(console, demo)
        else:
            print_snapshots(console, demo, size.unmitigated_s)
        console.print()
        for part in summary(demo):
            console.print(part, markup=False)


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


@contextlib.contextmanager
def saying(console: "Console", what: str) -> "Iterator[None]":
    """Tell what takes its time: beside a spinner, or as a line."""
    if moves(console):
        with console.status(what):
            yield
    else:
        console.print(f"{what} ...")
        yield


def moves(console: "Console") -> bool:
    """Can a part of the output be drawn again?"""
    return console.is_terminal and not console.is_dumb_terminal

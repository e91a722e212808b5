"""Sessions and queries of a command: started, watched, and ended whatever happens."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from reshape.cli.flow_file import BadInput
from reshape.cli.spark_session import deaf_to_interrupts, quiet_session, scratch_directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.console import Console

    from reshape.query import Query

LOOK_S = 0.25
# Of output that cannot move, people read a line now and then.
LINE_S = 5.0


@contextlib.contextmanager
def session_for(console: Console, master: str | None, conf: Sequence[str]) -> Iterator[SparkSession]:
    """A quiet session; when the block ends nothing of it is left."""
    for text in conf:
        if "=" not in text:
            raise BadInput(f"--conf {text!r}: write it as KEY=VALUE, like spark.sql.shuffle.partitions=8")
    config = dict(text.split("=", 1) for text in conf)
    with scratch_directory() as directory, contextlib.ExitStack() as session:
        with saying(console, "starting Spark (some seconds)"):
            spark = session.enter_context(quiet_session(directory, master, config))
        yield spark


def watch(console: Console, query: Query, *, quiet: bool) -> None:
    """Show a query until it has ended; raises what it failed with. An interrupt stops it."""
    try:
        if quiet:
            query.awaitTermination()
        elif moves(console):
            _play(console, query)
        else:
            _print_lines(console, query)
        query.awaitTermination()
    except BaseException:
        with deaf_to_interrupts():
            query.stop()
        raise


def _play(console: Console, query: Query) -> None:
    from rich.live import Live

    from reshape.cli.query_view import view

    began = time.monotonic()
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while query.isActive:
            seconds = time.monotonic() - began
            live.update(view(query, seconds, console.width, console.height), refresh=True)
            # Ctrl-C is heard between two looks; the end of the query ends the wait at once.
            with contextlib.suppress(Exception):
                query.awaitTermination(LOOK_S)


def _print_lines(console: Console, query: Query) -> None:
    from reshape.cli.query_view import line

    due, said = 0.0, ""
    while query.isActive:
        state = query.status["message"].partition(":")[0]
        if time.monotonic() >= due or state != said:
            console.print(f"{query.name}: {line(query)}", markup=False)
            due, said = time.monotonic() + LINE_S, state
        with contextlib.suppress(Exception):
            query.awaitTermination(LOOK_S)


@contextlib.contextmanager
def only_json(wanted: bool) -> Iterator[None]:
    """What a user's script prints goes beside the one object that standard output is to have."""
    with contextlib.redirect_stdout(sys.stderr) if wanted else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def saying(console: Console, what: str) -> Iterator[None]:
    """Tell what takes its time: beside a spinner, or as a line."""
    if moves(console):
        with console.status(what):
            yield
    else:
        console.print(f"{what} ...", markup=False)
        yield


@contextlib.contextmanager
def counting(console: Console, what: str) -> Iterator[Callable[[str, int, int], None]]:
    """Tell how many steps of a long work are done: by a bar, or by a line for each. Gives what hears of a step."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    if not moves(console):
        console.print(f"{what} ...", markup=False)
        yield lambda step, done, steps: console.print(f"{what}, {done + 1} of {steps}: {step}", markup=False)
        return
    texts = TextColumn("{task.description}", markup=False)
    columns = (SpinnerColumn(), BarColumn(24), MofNCompleteColumn(), TimeElapsedColumn(), texts)
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda step, done, steps: bar.update(task, description=f"{what}: {step}", completed=done, total=steps)


def moves(console: Console) -> bool:
    """Can a part of the output be drawn again?"""
    return console.is_terminal and not console.is_dumb_terminal

"""`reshape run`: a query of a file as a flow, watched in the terminal."""

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reshape.cli import options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from rich.console import Console

    from reshape.cli.flow_file import FlowFile
    from reshape.flows import Flow
    from reshape.query import Query

EXIT_FAILED = 1
STORY_LINES = 4


def add(app: typer.Typer) -> None:
    app.command(epilog="Exit codes: 0 done, 1 the flow failed, 2 bad input, 130 interrupted.")(run)


def run(
    file: options.File,
    table: options.Tables = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", metavar="NAME=VALUE", help="A setting of the flow, like workers=8; repeatable."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the result there: a folder .parquet or .csv.")
    ] = None,
    rows: Annotated[int, typer.Option(min=0, help="So many rows of the result are printed.")] = 20,
    explain: Annotated[bool, typer.Option("--explain", help="Say what would run where, and run nothing.")] = False,
    master: options.Master = None,
    conf: options.Conf = None,
    opens: options.Open = False,
    as_json: options.Json = False,
) -> int:
    """Run a query as a flow and watch its result grow.

    FILE is SQL over tables that --table names, Python that defines query(spark), or a flow in TOML with its tables,
    query and settings. What flows cannot do better than Spark, Spark does; --explain says what and why.
    """
    from rich.console import Console

    from reshape.cli.browser import ready_page
    from reshape.cli.flow_file import read_flow_file
    from reshape.cli.queries import build_query
    from reshape.cli.running import only_json, saying, session_for

    given = read_flow_file(file, table or [], settings or [], output)
    if opens:
        ready_page()
    console = Console(file=sys.stderr if as_json else sys.stdout, highlight=False)
    with session_for(console, master, conf or []) as spark:
        with only_json(as_json), saying(console, "reading the query's plan"):
            flow = as_flow(build_query(spark, given), given)
        if explain:
            if as_json:
                placements = [asdict(placement) for placement in flow.placements]
                print(json.dumps({"name": given.name, "placements": placements}))
            else:
                flow.explain()
            return 0
        return Run(console, given, rows, as_json, opens=opens).carry_out(flow)


def as_flow(query: "DataFrame | Flow", given: "FlowFile") -> "Flow":
    import reshape
    from reshape.flows import Flow

    if isinstance(query, Flow):
        return query.options(**given.options)
    return reshape.flow(query, **given.options)


class Run:
    """One flow from its start to its written result."""

    def __init__(self, console: "Console", given: "FlowFile", rows: int, as_json: bool, *, opens: bool = False) -> None:
        self._console = console
        self._given = given
        self._rows = rows
        self._as_json = as_json
        self._opens = opens
        self._began = time.monotonic()

    def carry_out(self, flow: "Flow") -> int:
        """Run it and say what came of it; the exit code."""
        from reshape.cli.browser import hold_page, show_page
        from reshape.cli.queries import in_words
        from reshape.cli.running import saying, watch
        from reshape.errors import FlowError, ReshapeError

        reason = ""
        query: Query | None = None
        try:
            with saying(self._console, "starting the flow"):
                query = flow.start()
        except FlowError as error:
            reason = str(error).removeprefix("start: ")
        try:
            if query is None:
                with saying(self._console, f"Spark runs this by itself: {reason}"):
                    self._finish(flow.toDF(), None, reason)
            else:
                if self._opens:
                    show_page(self._console, query.url)
                watch(self._console, query, quiet=self._as_json)
                self._finish(query.result(), query, "")
                if self._opens:
                    hold_page(self._console)
        except ReshapeError as error:
            return self._failed(str(error))
        except Exception as error:
            return self._failed(in_words(error))
        return 0

    def _failed(self, message: str) -> int:
        print(f"reshape: error: {message}", file=sys.stderr)
        return EXIT_FAILED

    def _finish(self, df: "DataFrame", query: "Query | None", reason: str) -> None:
        from reshape.observe.cells import as_json

        seconds = time.monotonic() - self._began
        total = df.count()
        first = df.limit(self._rows).toArrow() if self._rows else df.limit(0).toArrow()
        if self._given.output is not None:
            self._write(df, self._given.output)
        if self._as_json:
            print(json.dumps(as_json(self._report(df, first, total, seconds, query, reason)), allow_nan=False))
            return
        self._show(first, total, seconds, query)

    def _show(self, first: Any, total: int, seconds: float, query: "Query | None") -> None:
        from reshape.cli.query_view import result_table

        console = self._console
        console.print(result_table(first, self._rows, console.width, None, total))
        story = [] if query is None else query.story()
        console.print(f"{total:,} rows in {seconds:.1f} s", style="bold", markup=False)
        if story:
            console.print("How load moved, as query.story() tells it:", style="dim")
        for line in story[:STORY_LINES]:
            console.print(f"  {line}", style="dim", markup=False)
        if len(story) > STORY_LINES:
            console.print(f"  ... and {len(story) - STORY_LINES} more (--json has all)", style="dim")
        if self._given.output is not None:
            console.print(f"written to {self._given.output}", markup=False)

    def _write(self, df: "DataFrame", path: Path) -> None:
        from reshape.cli.flow_file import check_output

        form = check_output(path)
        writer = df.write.format(form)
        (writer.option("header", "true") if form == "csv" else writer).save(str(path.absolute()))

    def _report(
        self,
        df: "DataFrame",
        first: Any,
        total: int,
        seconds: float,
        query: "Query | None",
        reason: str,
    ) -> dict[str, Any]:
        from reshape.observe.cells import distinct_names, rows_of

        progress = None if query is None else query.lastProgress
        names = distinct_names([field.name for field in df.schema])
        return {
            "name": self._given.name,
            "by": "spark" if query is None else "reshape",
            "reason": reason,
            "seconds": round(seconds, 3),
            "rows": total,
            "columns": {name: field.dataType.simpleString() for name, field in zip(names, df.schema, strict=True)},
            "first_rows": [dict(zip(names, row, strict=True)) for row in rows_of(first)],
            "output": None if self._given.output is None else str(self._given.output),
            "progress": None if progress is None else progress.as_dict(),
            "story": [] if query is None else query.story(),
        }

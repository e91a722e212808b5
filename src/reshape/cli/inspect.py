"""`reshape inspect`: which keys of a query are hot, before anybody waits for it."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from reshape.cli import options


def add(app: typer.Typer) -> None:
    app.command(epilog="Exit codes: 0 looked at, 2 bad input, 130 interrupted.")(inspect)


def inspect(
    file: options.File,
    table: options.Tables = None,
    master: options.Master = None,
    conf: options.Conf = None,
    rows: Annotated[int, typer.Option(min=1, help="The most rows to look at for each input.")] = 200_000,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Hot on so many workers; the session's slots unless given.")
    ] = None,
    as_json: options.Json = False,
) -> int:
    """Find hot keys of a query by sampling.

    Looks at the keys of each join, grouping, window and sort of a query: which are hot, what Spark would do about
    them, what a flow would, and the expected time each way (an estimate by the simulator). Runs none of the query.
    """
    from rich.console import Console

    from reshape.cli.flow_file import BadInput, read_flow_file
    from reshape.cli.queries import build_query
    from reshape.cli.running import counting, only_json, session_for
    from reshape.flows import Flow
    from reshape.inspection.inspect import inspect as look
    from reshape.inspection.report import table as shown
    from reshape.observe.cells import as_json as as_plain

    given = read_flow_file(Path(file), table or [], [], None)
    console = Console(file=sys.stderr if as_json else sys.stdout, highlight=False)
    with session_for(console, master, conf or []) as spark, counting(console, "looking at keys") as on_operation:
        with only_json(as_json):
            query = build_query(spark, given)
        if isinstance(query, Flow):
            raise BadInput(f"{given.where}: query(spark) returned a flow; return the DataFrame to inspect")
        found = look(query, rows, workers, on_operation)
    if as_json:
        print(json.dumps(as_plain(found.as_json()), allow_nan=False))
    else:
        console.print(shown(found))
    return 0

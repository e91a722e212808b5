"""`reshape replay`: runs as their event logs have them, on the live page. Needs no Spark."""

from pathlib import Path
from typing import Annotated

import typer


def add(app: typer.Typer) -> None:
    app.command()(replay)


def replay(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="An event log, or a folder with some.", show_default=False)
    ],
    speed: Annotated[float, typer.Option(help="Times the run's own pace.")] = 1.0,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="The port to serve on; the first that is free unless given.")
    ] = None,
    opens: Annotated[bool, typer.Option("--open", help="Open it in this machine's browser.")] = False,
) -> int:
    """Show a run again, from its event log.

    Serves the live page from event logs (the files that `event_log` makes), on this machine only. Prints the address
    to open; Ctrl-C ends it. Of two files the first two are shown side by side.
    """
    from reshape.cli.browser import open_in_browser
    from reshape.page.replay import ReplayedRun
    from reshape.page.runs import Runs
    from reshape.page.server import PageServer

    _check_speed(speed)
    runs = Runs()
    numbers = [runs.add(ReplayedRun(path, speed)) for path in _logs(files)]
    server = PageServer(runs, port)
    try:
        url = server.url(*numbers[:2])
        print(f"open in a browser on this machine (Ctrl-C ends it):\n{url}", flush=True)
        if opens:
            open_in_browser(url)
        while not server.wait(1.0):
            pass
    finally:
        server.close()
    return 0


def _logs(given: list[Path]) -> list[Path]:
    from reshape.page.errors import LogUnreadable

    found: list[Path] = []
    for path in given:
        files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        if not files:
            raise LogUnreadable(f"there is no event log (*.jsonl) in {path}")
        found += files
    return found


def _check_speed(speed: float) -> None:
    from reshape.page.replay import FASTEST, SLOWEST

    if not SLOWEST <= speed <= FASTEST:
        raise typer.BadParameter(f"--speed {speed:g} is not between {SLOWEST:g} and {FASTEST:g}")

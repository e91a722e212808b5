"""`reshape replay`: runs as their event logs have them, on the live page. Needs no Spark."""

import argparse
import sys
from pathlib import Path


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser(
        "replay",
        help="show a run again, from its event log",
        description="Serves the live page from event logs (the files that `event_log` makes), on this machine only. "
        "Prints the address to open; Ctrl-C ends it. Of two files the first two are shown side by side.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", type=Path, help="an event log, or a folder with some")
    parser.add_argument("--speed", type=_speed, default=1.0, help="times the run's own pace (1)")
    parser.add_argument("--port", type=_port, help="the port to serve on; the first that is free unless given")
    parser.add_argument("--open", action="store_true", help="open it in this machine's browser")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from reshape.page.replay import ReplayedRun
    from reshape.page.runs import Runs
    from reshape.page.server import PageServer

    runs = Runs()
    numbers = [runs.add(ReplayedRun(path, arguments.speed)) for path in _logs(arguments.files)]
    server = PageServer(runs, arguments.port)
    try:
        url = server.url(*numbers[:2])
        print(f"open in a browser on this machine (Ctrl-C ends it):\n{url}", flush=True)
        if arguments.open:
            _open(url)
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


def _open(url: str) -> None:
    import webbrowser

    if not webbrowser.open(url):
        print("no browser could be opened here; open the address yourself", file=sys.stderr)


def _speed(text: str) -> float:
    from reshape.page.replay import FASTEST, SLOWEST

    speed = float(text)
    if not SLOWEST <= speed <= FASTEST:
        raise argparse.ArgumentTypeError(f"{text} is not between {SLOWEST:g} and {FASTEST:g}")
    return speed


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port < 65536:
        raise argparse.ArgumentTypeError(f"{text} is no port")
    return port

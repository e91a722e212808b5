"""Entry point of the `reshape` command."""

import argparse
import os
import sys
from collections.abc import Sequence

from reshape import __version__
from reshape.cli import demo, doctor, replay, simulate
from reshape.errors import ReshapeError

# A subcommand is a module with `add_parser(subparsers)`, which sets `run`: a function from the arguments to
# an exit code. Heavy imports (pyspark, pandas, rich) belong inside `run`, so that
# `reshape --help` answers at once.
COMMANDS = (demo, replay, simulate, doctor)

EXIT_ERROR = 2
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells report it
EXIT_BROKEN_PIPE = 141  # 128 + SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    try:
        arguments = build_parser().parse_args(argv)
        code: int = arguments.run(arguments)
        # A reader that has gone shows up here at the latest, not in the interpreter's own flush at exit.
        sys.stdout.flush()
        return code
    except ReshapeError as error:
        print(f"reshape: error: {error}", file=sys.stderr)
        return EXIT_ERROR
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="reshape",
        description="Exploratory analysis on skewed data with PySpark.",
    )
    parser.add_argument("--version", action="version", version=f"reshape {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)
    for command in COMMANDS:
        command.add_parser(subparsers)
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""Entry point of the `reshape` command."""

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import click
import typer

from reshape import __version__
from reshape.cli import demo, doctor, inspect, replay, run, simulate
from reshape.errors import ReshapeError

# A subcommand is a module with `add(app)`, which registers a function from options to an exit code. Heavy imports
# (pyspark, pandas, rich) belong inside that function, so that `reshape --help` answers at once.
COMMANDS = (run, inspect, replay, demo, simulate, doctor)

EXIT_ERROR = 2
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells report it
EXIT_BROKEN_PIPE = 141  # 128 + SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    try:
        code = build_app()(args=None if argv is None else list(argv), prog_name="reshape", standalone_mode=False)
        # A reader that has gone shows up here at the latest, not in the interpreter's own flush at exit.
        sys.stdout.flush()
        return int(code or 0)
    except click.UsageError as error:
        return refused(error.format_message() + _where_help_is(error))
    except (ReshapeError, click.ClickException) as error:
        return refused(str(error))
    except (KeyboardInterrupt, click.Abort):
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        return _unread()
    except SystemExit as ended:
        # What click makes of a reader that has gone.
        if isinstance(ended.__context__, BrokenPipeError):
            return _unread()
        raise


def _unread() -> int:
    """Nothing is left to be flushed at exit, where nobody reads."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ is not None else 1)
    return EXIT_BROKEN_PIPE


def refused(message: str) -> int:
    print(f"reshape: error: {message}", file=sys.stderr)
    return EXIT_ERROR


def build_app() -> typer.Typer:
    app = typer.Typer(
        name="reshape",
        help="Exploratory analysis on skewed data with PySpark.",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(common)
    for command in COMMANDS:
        command.add(app)
    return app


def _say_version(wanted: bool) -> None:
    if wanted:
        print(f"reshape {__version__}")
        raise typer.Exit


def common(
    _: Annotated[
        bool, typer.Option("--version", help="Show the version and end.", is_eager=True, callback=_say_version)
    ] = False,
) -> None:
    """Exploratory analysis on skewed data with PySpark."""


def _where_help_is(error: click.UsageError) -> str:
    return f" Try: {error.ctx.command_path} --help" if error.ctx is not None else ""


if __name__ == "__main__":
    sys.exit(main())

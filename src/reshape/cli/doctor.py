"""`reshape doctor`: can this machine run reshape, and what to do if not."""

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated

import typer

from reshape import __version__
from reshape.cli.checks import Check, run_checks

STYLES = {"ok": "green", "warn": "yellow", "bad": "bold red", "skip": "dim"}


def add(app: typer.Typer) -> None:
    app.command(epilog="Exit code: 0 if nothing is bad, 1 otherwise.")(doctor)


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    no_spark: Annotated[bool, typer.Option("--no-spark", help="Do not start a JVM for a small Spark job.")] = False,
) -> int:
    """Check Python, Java, Spark, memory, cores and slots.

    Checks whether this machine can run reshape: what was found, what is wrong, what to do.
    """
    findings = run_checks(start_spark=not no_spark)
    if not as_json:
        return exit_code(show(findings))
    checks = list(findings)
    code = exit_code(checks)
    report = {"version": __version__, "ok": code == 0, "checks": [asdict(check) for check in checks]}
    print(json.dumps(report, indent=2))
    return code


def exit_code(checks: Iterable[Check]) -> int:
    return 1 if any(check.status == "bad" for check in checks) else 0


def show(checks: Iterable[Check]) -> list[Check]:
    """Prints each check as soon as it is known: the Spark job takes seconds, the rest does not."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=sys.stdout, highlight=False)
    shown: list[Check] = []
    with console.status("checking; a small Spark job comes last and takes some seconds"):
        for check in checks:
            shown.append(check)
            line = Table.grid(padding=(0, 1))
            line.add_column(width=4)
            line.add_column(width=9)
            line.add_column(overflow="fold")
            line.add_row(Text(check.status, STYLES[check.status]), Text(check.name), Text(check.found))
            if check.advice:
                line.add_row("", "", Text(f"-> {check.advice}"))
            console.print(line)
    text, style = conclusion(shown)
    console.print()
    console.print(Text(text, style))
    return shown


def conclusion(checks: list[Check]) -> tuple[str, str]:
    bad = sum(check.status == "bad" for check in checks)
    warned = sum(check.status == "warn" for check in checks)
    if bad:
        return f"{bad} bad, {warned} to look at: reshape will not run as it is.", STYLES["bad"]
    if warned:
        return f"Ready, with {warned} to look at.", STYLES["warn"]
    return "Ready.", STYLES["ok"]

"""`reshape simulate`: the paper's experiments at the paper's scale, in virtual time."""

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reshape.sim.experiments.experiment import Experiment, Outcome

ALWAYS = ("total_s", "ttr", "load_balancing", "iterations")


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser(
        "simulate",
        help="run an experiment of the paper in the simulator",
        description="Runs an experiment of the paper in virtual time. Without a name, lists the experiments.",
    )
    parser.add_argument("experiment", nargs="?", metavar="NAME", help="for example ratio (§7.2)")
    parser.add_argument(
        "--strategy", action="append", default=[], metavar="NAME", help="only cases of this strategy; repeatable"
    )
    parser.add_argument("--seed", type=int, default=0, help="for what is random in the experiment (default 0)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="PARAM=VALUE", help="change a parameter; repeatable"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    parser.add_argument("--plot", metavar="FILE", help="draw the paper's figure (PNG or SVG)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from rich.console import Console

    from reshape.sim.experiments import find
    from reshape.sim.plot import check_plot_file, draw

    if arguments.experiment is None:
        return list_experiments(as_json=arguments.json)
    experiment = find(arguments.experiment)
    changes = parse_settings(arguments.set)
    path = check_plot_file(arguments.plot) if arguments.plot else None
    with Console(stderr=True).status(f"simulating {experiment.name}") as status:
        outcome = experiment.run(
            arguments.strategy,
            seed=arguments.seed,
            settings=changes,
            on_case=lambda case: status.update(f"simulating {experiment.name}: {case}"),
        )
    if path is not None:
        draw(f"{experiment.title} ({experiment.section})", experiment.figure(outcome), path)
    if arguments.json:
        print(json.dumps(outcome.as_json(), allow_nan=False))
    else:
        show(experiment, outcome)
        if path is not None:
            print(f"figure: {path}")
    return 0


def parse_settings(texts: list[str]) -> dict[str, str]:
    from reshape.control.errors import require

    for text in texts:
        require("=" in text, "--set", text, "like workers=48")
    return dict(text.split("=", 1) for text in texts)


def list_experiments(*, as_json: bool) -> int:
    from rich.console import Console
    from rich.table import Table

    from reshape.sim.experiments import EXPERIMENTS

    if as_json:
        print(json.dumps({name: each.title for name, each in EXPERIMENTS.items()}))
        return 0
    table = Table.grid(padding=(0, 2))
    for experiment in EXPERIMENTS.values():
        table.add_row(experiment.name, experiment.section, experiment.title)
    console = Console(file=sys.stdout, highlight=False)
    console.print(table)
    console.print("\nRun one with: reshape simulate ratio")
    return 0


def show(experiment: "Experiment[Any]", outcome: "Outcome") -> None:
    """The summary as a table, what to look at in it, and what the paper found."""
    from rich.console import Console
    from rich.table import Table

    rows = {case: flat(numbers, (*ALWAYS, *experiment.columns)) for case, numbers in outcome.summary.items()}
    columns = list(dict.fromkeys(name for row in rows.values() for name in row))
    table = Table(title=f"{experiment.title} ({experiment.section})", title_justify="left", box=None)
    table.add_column("case", no_wrap=True)
    for name in columns:
        # Words wrap in a narrow terminal, names with underscores would be cut.
        table.add_column(name.replace("_", " "), justify="right")
    for case, row in rows.items():
        table.add_row(case, *(written(row.get(name)) for name in columns))
    console = Console(file=sys.stdout, highlight=False)
    console.print(table)
    console.print(f"\nLook at {experiment.look_at}.")
    console.print(f"The paper: {experiment.paper}.")


def flat(numbers: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """The named numbers; those that are objects become one column per key."""
    columns: dict[str, Any] = {}
    for name in names:
        value = numbers.get(name)
        if isinstance(value, dict):
            columns.update({f"{name} {key}": part for key, part in value.items()})
        else:
            columns[name] = value
    return columns


def written(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, dict):
        return " ".join(f"{part:.2f}" for part in value.values())
    if isinstance(value, float):
        return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.3f}"
    return f"{value:,}" if isinstance(value, int) else str(value)

"""`reshape simulate`: the paper's experiments at the paper's scale, in virtual time."""

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from reshape.sim.experiments.experiment import Experiment, Outcome

ALWAYS = ("total_s", "ttr", "load_balancing", "iterations")


def _names(incomplete: str) -> list[str]:
    """For completion in a shell."""
    from reshape.sim.experiments import EXPERIMENTS

    return [name for name in EXPERIMENTS if name.startswith(incomplete)]


def add(app: typer.Typer) -> None:
    app.command()(simulate)


def simulate(
    experiment: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="For example ratio (§7.2).", autocompletion=_names)
    ] = None,
    strategy: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only cases of this strategy; repeatable.")
    ] = None,
    seed: Annotated[int, typer.Option(help="For what is random in the experiment.")] = 0,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="PARAM=VALUE", help="Change a parameter; repeatable.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    plot: Annotated[str | None, typer.Option(metavar="FILE", help="Draw the paper's figure (PNG or SVG).")] = None,
) -> int:
    """Run an experiment of the paper in the simulator.

    In virtual time, at the paper's scale. Without a name, lists the experiments.
    """
    from rich.console import Console

    from reshape.sim.experiments import find
    from reshape.sim.plot import check_plot_file, draw

    if experiment is None:
        return list_experiments(as_json=as_json)
    found = find(experiment)
    changes = parse_settings(settings or [])
    path = check_plot_file(plot) if plot else None
    with Console(stderr=True).status(f"simulating {found.name}") as status:
        outcome = found.run(
            strategy or [],
            seed=seed,
            settings=changes,
            on_case=lambda case: status.update(f"simulating {found.name}: {case}"),
        )
    if path is not None:
        draw(f"{found.title} ({found.section})", found.figure(outcome), path)
    if as_json:
        print(json.dumps(outcome.as_json(), allow_nan=False))
    else:
        show(found, outcome)
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

"""`reshape simulate`: the paper's experiments at the paper's scale, in virtual time."""

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from reshape.sim.experiments.experiment import Experiment, Outcome

FILE_WIDTH = 160  # of output that is no terminal: a table of any experiment fits
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
    from rich.progress import Progress

    from reshape.sim.experiments import find
    from reshape.sim.plot import check_plot_file, draw

    if experiment is None:
        return list_experiments(as_json=as_json)
    found = find(experiment)
    changes = parse_settings(settings or [])
    path = check_plot_file(plot) if plot else None
    said = Console(stderr=True)
    with Progress(console=said, transient=True, disable=not said.is_terminal) as bar:
        task = bar.add_task(f"simulating {found.name}")
        outcome = found.run(
            strategy or [],
            seed=seed,
            settings=changes,
            on_case=lambda case, number, cases: bar.update(task, description=case, completed=number, total=cases),
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

    rows = {case: flat(numbers, (*ALWAYS, *experiment.columns)) for case, numbers in outcome.summary.items()}
    columns = list(dict.fromkeys(name for row in rows.values() for name in row))
    cells = {case: [written(row.get(name)) for name in columns] for case, row in rows.items()}
    console = Console(file=sys.stdout, highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, FILE_WIDTH)
    console.print(f"{experiment.title} ({experiment.section})", style="italic")
    # Words wrap in a narrow terminal; names with underscores would be cut.
    console.print(drawn([name.replace("_", " ") for name in columns], cells, console.width))
    console.print(f"\nLook at {experiment.look_at}.")
    console.print(f"The paper: {experiment.paper}.")


def drawn(columns: list[str], cells: dict[str, list[str]], width: int) -> "RenderableType":
    """A table if every word fits, as wide as there is room for, else a paragraph for each case."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    texts = [[name, *(row[at] for row in cells.values())] for at, name in enumerate(columns)]
    first = max(map(len, cells))
    for widths, gap in (
        ([max(map(len, column)) for column in texts], 2),
        ([max(len(word) for text in column for word in text.split()) for column in texts], 2),
        ([max(len(word) for text in column for word in text.split()) for column in texts], 1),
    ):
        if first + sum(widths) + gap * len(columns) <= width:
            table = Table(box=None, padding=(0, 0, 0, gap), pad_edge=False)
            table.add_column("case", width=first)
            for name, wide in zip(columns, widths, strict=True):
                table.add_column(name, justify="right", width=wide)
            for case, row in cells.items():
                table.add_row(case, *row)
            return table
    named = {case: ", ".join(map(" ".join, zip(columns, row, strict=True))) for case, row in cells.items()}
    return Group(*(Text(f"{case}: {text}") for case, text in named.items()))


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

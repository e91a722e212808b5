"""A running query in a terminal: how far it is, its result so far and how far to trust it, workers, transfers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from reshape.observe.cells import rows_of

if TYPE_CHECKING:
    import pyarrow as pa

    from reshape.observe.progress import QueryProgress, WorkerProgress
    from reshape.observe.representativeness import Shown
    from reshape.query import Query

BAR = 30
BARS = " ▁▂▃▄▅▆▇█"
MOST_WORKERS = 40  # more do not fit beside their label; the most loaded are shown
STORY_LINES = 3
AROUND = 8  # lines of the view that are neither rows of the result nor operators nor stories
CELL = 24
LEAST_ROWS = 3


def view(query: Query, seconds: float, width: int, height: int) -> RenderableType:
    """All of it at one moment, in so many columns and lines."""
    progress, shown, story = query.lastProgress, query.shown(), query.story()
    parts: list[RenderableType] = [_heading(query, seconds)]
    workers = () if progress is None else progress.workers
    if progress is not None:
        parts.append(_read(progress))
    operators = _by_operator(workers)
    used = AROUND + len(operators) + (min(len(story), STORY_LINES) + 1 if story else 0)
    if shown is not None:
        parts += [_trust(shown), result_table(shown.table, max(LEAST_ROWS, height - used), width, shown.completeness)]
    parts += [_load(name, each) for name, each in operators.items()]
    if story:
        parts.append(Text(f"load moved for {len(story)} reasons so far, the last:", "dim"))
        parts += [Text(f"  {line}", no_wrap=True, overflow="ellipsis") for line in story[-STORY_LINES:]]
    return Group(*parts)


def line(query: Query) -> str:
    """The same in a line, for output that cannot move."""
    progress = query.lastProgress
    if progress is None:
        return query.status["message"]
    part = "" if progress.part_read is None else f", {progress.part_read:.0%} read"
    return (
        f"{query.status['message']}{part}, {progress.numInputRows:,} rows, "
        f"{progress.representativeness:.0%} representative"
    )


def result_table(
    table: pa.Table, most_rows: int, width: int, completeness: Sequence[float] | None = None, more: int | None = None
) -> RenderableType:
    """The first rows; ``more`` is how many the whole result has, those of the table unless given."""
    total = table.num_rows if more is None else more
    rows = rows_of(table.slice(0, most_rows))
    fits = max(1, min(table.num_columns, (width - 8) // 8))
    drawn = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for field in list(table.schema)[:fits]:
        justify: Any = "right" if _is_number(field.type) else "left"
        drawn.add_column(Text(field.name), justify=justify, no_wrap=True, overflow="ellipsis", max_width=CELL)
    if completeness is not None:
        drawn.add_column(Text("seen", "dim"), justify="right", style="dim")
    for number, row in enumerate(rows):
        cells = [_cell(value) for value in row[:fits]]
        drawn.add_row(*cells, *([] if completeness is None else [f"{completeness[number]:.0%}"]))
    left = []
    if total > len(rows):
        left.append(f"{total - len(rows):,} more rows")
    if table.num_columns > fits:
        left.append(f"{table.num_columns - fits} more columns")
    if not rows:
        left.append("no rows")
    return Group(drawn, Text(f"  {', '.join(left)}", "dim")) if left else drawn


def _heading(query: Query, seconds: float) -> Text:
    message = query.status["message"]
    text = Text(query.name, "bold", no_wrap=True, overflow="ellipsis")
    style = "red" if message.startswith("failed") else "green" if message.startswith(("running", "done")) else "yellow"
    text.append(f"  {message}", style)
    text.append(f"  {seconds:.0f} s", "dim")
    return text


def _read(progress: QueryProgress) -> RenderableType:
    part = progress.part_read
    grid = Table.grid(padding=(0, 1, 0, 0))
    words = f"{progress.numInputRows:,} rows read, {progress.processedRowsPerSecond:,.0f} processed a second"
    if progress.seconds_left is not None:
        words += f", about {progress.seconds_left:.0f} s left"
    if progress.rows_waiting:
        words += f", {progress.rows_waiting:,} wait"
    known = Text("" if part is None else f"{part:4.0%}", "bold")
    bar = ProgressBar(total=1.0, completed=part or 0.0, width=BAR, pulse=part is None)
    grid.add_row(bar, known, Text(words, no_wrap=True, overflow="ellipsis"))
    return grid


def _trust(shown: Shown) -> Text:
    overall = shown.representativeness.overall
    style = "green" if overall >= 0.9 else "yellow" if overall >= 0.7 else "red"
    what = "the result" if shown.final else "the result so far"
    return Text(f"{what}: ").append(f"{overall:.0%} representative of the input so far", style)


def _by_operator(workers: Sequence[WorkerProgress]) -> dict[str, list[WorkerProgress]]:
    found: dict[str, list[WorkerProgress]] = {}
    for worker in workers:
        found.setdefault(f"{worker.label}", []).append(worker)
    return found


def _load(label: str, workers: Sequence[WorkerProgress]) -> Text:
    """Rows that each worker has processed as bars, in the order of the workers; the most loaded of many."""
    processed = [sum(worker.rows_processed) for worker in workers]
    waiting = sum(sum(worker.rows_waiting) for worker in workers)
    helped = sum(
        rows
        for worker in workers
        for of_owner in worker.rows_of_owner
        for owner, rows in of_owner.items()
        if int(owner) != worker.worker
    )
    shown = processed if len(processed) <= MOST_WORKERS else sorted(processed, reverse=True)[:MOST_WORKERS]
    text = Text(f"{label[:CELL]:{CELL}} ", no_wrap=True, overflow="ellipsis")
    text.append(bars(shown), "cyan")
    text.append(f"  {len(workers)} workers, {sum(processed):,} rows, {waiting:,} wait", "dim")
    if helped:
        text.append(f", {helped:,} by helpers", "magenta")
    return text


def bars(values: Sequence[int]) -> str:
    """A bar of one character for each value."""
    largest = max(values, default=0)
    return "".join(BARS[round(value / largest * (len(BARS) - 1))] if largest else BARS[1] for value in values)


def _is_number(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _cell(value: Any) -> Text:
    if value is None:
        return Text("null", "dim")
    if isinstance(value, float):
        return Text(f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.2f}")
    if isinstance(value, int) and not isinstance(value, bool):
        return Text(str(value))
    return Text(str(value).replace("\n", " "))

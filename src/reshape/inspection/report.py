"""An inspection as a table: in a terminal, as plain text, in a notebook."""

from __future__ import annotations

import html as markup
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType

    from reshape.inspection.records import Finding, Inspection, KeyShare

WIDTH = 100
_LONGEST_KEY = 40
_KEYS_SHOWN = 3
COLUMNS = ("operation", "keys", "hottest", "share (95 %)", "rows looked at", "Spark", "expected time")


def conclusion(inspection: Inspection) -> str:
    """What to make of it, in a sentence or two."""
    if not inspection.findings:
        return "Nothing in this query brings rows of one key together: no key of it can be hot."
    if inspection.hot:
        worst = inspection.hot[0]
        times = worst.times
        gain = ""
        if times is not None:
            gain = (
                f" Estimate: {_times(times.spark)} the time of even loads by Spark, {_times(times.reshape)} by reshape."
            )
        return f"Hot: {worst.operation} on {', '.join(worst.keys) or 'all rows'}: {key_text(worst.hot[0])}.{gain}"
    unseen = [finding for finding in inspection.findings if finding.looked is None]
    if unseen:
        return f"No hot key was found, but {len(unseen)} of {len(inspection.findings)} inputs could not be looked at."
    if any(finding.hot for finding in inspection.findings):
        return "There are hot keys, and Spark copes with them by itself."
    if all(finding.looked is not None and not finding.top for finding in inspection.findings):
        return "The input is empty: there are no keys to look at."
    return f"No key is hot on {inspection.workers} workers: an even load is to be expected."


def key_text(key: KeyShare) -> str:
    """As in "US, null has 43.1 % of the rows"."""
    return f"{key_values(key)} has {_percent(key.share)} of the rows"


def key_values(key: KeyShare) -> str:
    if not key.values:
        return "one key"
    # A text that says null is not null.
    plain_texts = (isinstance(value, str) and value != "null" for value in key.values)
    pairs = zip(key.values, plain_texts, strict=True)
    text = ", ".join(value if is_plain else json.dumps(value) for value, is_plain in pairs)
    return text if len(text) <= _LONGEST_KEY else f"{text[: _LONGEST_KEY - 3]}..."


def rows_of(finding: Finding) -> list[str]:
    """The cells of a finding, one for each of `COLUMNS`."""
    keys = ", ".join(finding.keys) or "(none)"
    if finding.looked is None:
        return [finding.operation, keys, "not looked at", "", "", finding.spark, finding.reason]
    shown = (finding.hot or finding.top[:1])[:_KEYS_SHOWN]
    if not finding.top:
        hottest, share = "no rows", ""
    else:
        hottest = "\n".join(f"{key_values(key)}{' (hot)' if finding.hot else ''}" for key in shown)
        share = "\n".join(_interval(key) for key in shown)
    more = len(finding.hot) - len(shown)
    if more > 0:
        hottest += f"\nand {more} more hot keys"
    looked = f"{finding.looked.rows:,}: {finding.looked.how}" if finding.looked.rows else finding.looked.how
    return [finding.operation, keys, hottest, share, looked, finding.spark, expected(finding)]


def expected(finding: Finding) -> str:
    times = finding.times
    if times is None:
        return "even"
    return f"Spark {_times(times.spark)}, reshape {_times(times.reshape)} (unmitigated {_times(times.unmitigated)})"


def table(inspection: Inspection) -> RenderableType:
    """For a terminal: a block for each finding, for seven columns fit no terminal."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    parts: list[RenderableType] = []
    for number, finding in enumerate(inspection.findings, 1):
        bare = bool(finding.hot) and not finding.remedy.helps
        style = "bold red" if bare else "yellow" if finding.hot or finding.looked is None else "bold green"
        cells = rows_of(finding)
        parts.append(Text(f"{number}. {cells[0]} on {cells[1]}", style))
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(overflow="fold")
        for name, cell in _lines(finding, cells):
            grid.add_row(name, Text(cell))
        parts += [Padding(grid, (0, 0, 1, 3))]
    parts.append(Text(conclusion(inspection), "bold"))
    if inspection.findings:
        parts.append(Text(footing(inspection), "dim"))
    return Group(*parts)


def _lines(finding: Finding, cells: list[str]) -> list[tuple[str, str]]:
    if finding.looked is None:
        return [("keys", f"not looked at: {finding.reason}"), ("Spark", finding.spark)]
    keys = [f"{name}  {share}" for name, share in zip(cells[2].split("\n"), [*cells[3].split("\n"), ""], strict=False)]
    lines = [("hottest", "\n".join(keys).strip()), ("looked at", cells[4]), ("Spark", finding.spark)]
    if "join" in finding.operation and any(key.has_null for key in finding.hot):
        lines.insert(1, ("null", "matches nothing in a join, yet all of its rows go to one worker"))
    if finding.hot:
        lines += [("reshape", finding.reshape), ("time", expected(finding))]
    return lines


def footing(inspection: Inspection) -> str:
    return (
        f"On {inspection.workers} workers. A key is hot when it alone makes at least half of an even worker's load. "
        "Times are estimates by the simulator, as multiples of the time with even loads. "
        f"Took {inspection.seconds:.1f} s."
    )


def plain(inspection: Inspection) -> str:
    from io import StringIO

    from rich.console import Console

    out = StringIO()
    Console(file=out, width=WIDTH, highlight=False, color_system=None, force_jupyter=False).print(table(inspection))
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())


def html(inspection: Inspection) -> str:
    """Nothing of the data is taken for markup."""

    def cell(text: Any, tag: str = "td") -> str:
        return f"<{tag}>{markup.escape(str(text)).replace(chr(10), '<br>')}</{tag}>"

    head = "".join(cell(name, "th") for name in COLUMNS)
    body = "".join(f"<tr>{''.join(map(cell, rows_of(finding)))}</tr>" for finding in inspection.findings)
    shown = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if body else ""
    under = f"<p>{markup.escape(footing(inspection))}</p>" if body else ""
    return f"<div>{shown}<p><b>{markup.escape(conclusion(inspection))}</b></p>{under}</div>"


def _interval(key: KeyShare) -> str:
    if key.low == key.high:
        return _percent(key.share)
    return f"{_percent(key.share)} ({_percent(key.low)} to {_percent(key.high)})"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if share >= 0.001 else f"{100 * share:.3f} %"


def _times(times: float) -> str:
    return f"{times:.1f} ×"

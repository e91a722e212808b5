"""A run as plain HTML without scripts: what stays of it in a notebook that is saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from reshape.observe.charts import Chart
from reshape.observe.drawing import chart_html, short

# Of the workers' loads the largest are told.
_MOST_WORKERS = 64


def saved_html(sections: Mapping[str, Any], chart: Chart | None, hint: str = "") -> str:
    """``sections``: head, result and workers, as the page has them. ``hint``: a line for the reader."""
    head = sections["head"]
    parts = [f"<h4>{escape(head['name'])}: {escape(head['status'])}</h4>", f"<p>{_facts(head)}</p>"]
    if head.get("ended") and head["status"].startswith("failed"):
        parts.append(f"<p>{escape(head['ended'])}</p>")
    if hint:
        parts.append(f"<p><em>{escape(hint)}</em></p>")
    if chart is not None:
        parts.append(chart_html(chart))
    result = sections.get("result") or {}
    if result.get("columns"):
        names = [column["name"] for column in result["columns"]]
        more = f", {result['more']:,} more are not shown" if result.get("more") else ""
        parts.append(_table(f"{len(result['rows']):,} rows{more}", names, result["rows"]))
    parts += [_workers(port) for port in sections.get("workers") or () if port["waiting"]]
    return "\n".join(parts)


def _facts(head: Mapping[str, Any]) -> str:
    progress = head["progress"]
    facts = [f"{head['seconds']:,} s"]
    if progress.get("part") is not None:
        facts.append(f"{progress['part']:.0%} read")
    if progress.get("rows"):
        facts.append(f"{progress['rows']:,} rows")
    if head["trust"] is not None:
        facts.append(f"{head['trust']:.0%} representative")
    if head["workers"]:
        facts.append(f"{head['workers']:,} workers on {head['hosts']:,} hosts")
    return escape(", ".join(facts))


def _workers(port: Mapping[str, Any]) -> str:
    """How many rows each worker had of its own, and how many it processed: load that was moved is the difference."""
    order = sorted(range(len(port["waiting"])), key=lambda worker: -port["routed"][worker])[:_MOST_WORKERS]
    rows = [[worker, port["routed"][worker], port["processed"][worker], port["waiting"][worker]] for worker in order]
    title = f"workers, input {port['operator']}.{port['port']}"
    return _table(title, ["worker", "own rows", "processed", "waiting"], rows)


def _table(title: str, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    heads = "".join(f"<th>{escape(name)}</th>" for name in names)
    lines = "".join(f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row)}</tr>" for row in rows)
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"
    return f"<details><summary>{escape(title)}</summary>{table}</details>"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return escape(short(value))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else escape(str(value))

"""A flow, and what it shows, as plain values that JSON can hold: for the event log, and for the page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from reshape.driver.control_plane import ControlPlane
from reshape.kernels.hashing import hash_rows, owners
from reshape.observe.cells import rows_of, values_of
from reshape.observe.charts import Chart, Line, Presentation, drawn, measured
from reshape.observe.progress import QueryProgress
from reshape.observe.representativeness import Shown
from reshape.plan.lineage import result_columns
from reshape.plan.physical import PhysicalPlan
from reshape.scan.scan import Scan

# What a chart and a table can show; `more` says how many there are beside them.
SHOWN_ROWS = 200
# A longer text or list is cut.
_LONGEST = 200
# Integers beyond this are not exact in a browser, so they are written as text.
_EXACT = 2**53


def flow_facts(plan: PhysicalPlan, attempt: int, scans: Mapping[int, Scan]) -> dict[str, Any]:
    """Operators and sources as a graph, with where workers are."""
    return {
        "name": plan.name,
        "attempt": attempt,
        "hosts": plan.hosts,
        "workers": plan.workers,
        "host_of": list(plan.host_of_workers()),
        "columns": [{"name": field.name, "type": str(field.type)} for field in plan.output],
        "operators": list(_operators(plan)),
        "sources": list(_sources(plan, scans)),
    }


def _operators(plan: PhysicalPlan) -> Iterator[dict[str, Any]]:
    for operator in plan.operators:
        roles = [port.role for port in operator.logic.ports]
        yield {
            "id": operator.id,
            "label": operator.label,
            "strategy": operator.mitigation.strategy,
            "emulated_s": operator.cost_s_per_row,
            "target": None if operator.target is None else list(operator.target),
            "ports": [
                {
                    "label": plan.port_label(operator.id, index),
                    "role": roles[index] if index < len(roles) else "",
                    "keys": [port.schema.names[column] for column in port.keys],
                    "split": plan.split(operator, index).split.value,
                    "after": port.after,
                }
                for index, port in enumerate(operator.ports)
            ],
        }


def _sources(plan: PhysicalPlan, scans: Mapping[int, Scan]) -> Iterator[dict[str, Any]]:
    for operator in plan.operators:
        for index, port in enumerate(operator.ports):
            for source in port.sources:
                scan = scans.get(source)
                reader = (
                    "Spark" if scan is None else f"hosts, {len(scan.splits):,} split{'s' * (len(scan.splits) != 1)}"
                )
                yield {"id": source, "target": [operator.id, index], "reader": reader}


def progress_facts(progress: QueryProgress) -> dict[str, Any]:
    """How far a run is, without what its reports say of workers."""
    left = progress.seconds_left
    return {
        "part": None if progress.part_read is None else round(progress.part_read, 4),
        "left_s": None if left is None else round(left, 1),
        "rows": progress.numInputRows,
        "rows_per_s": round(progress.processedRowsPerSecond),
        "waiting": progress.rows_waiting,
        "trust": round(progress.representativeness, 4),
        "sources": [[source.numInputRows, source.part_read] for source in progress.sources],
        "hosts": [[host.queue_bytes, host.spilled_bytes] for host in progress.hosts],
    }


def shown_facts(
    plan: PhysicalPlan, control: ControlPlane, of_flow: Shown, presentation: Presentation
) -> dict[str, Any] | None:
    """The running result, how far to trust it, and whose partition its rows are; None where there is nothing yet."""
    shown = presentation.of(of_flow)
    if shown is None:
        return None
    spec = presentation.chart
    by = spec.y if spec is not None and spec.y in shown.table.column_names else None
    chosen = _largest(shown.table, presentation.keys(plan.result_keys), by)
    rows = shown.table.take(chosen)
    owned = of_flow.table.take(_largest(of_flow.table, plan.result_keys))
    complete = shown.completeness
    return {
        "columns": [{"name": field.name, "type": str(field.type)} for field in rows.schema],
        "rows": [[plain(value) for value in row] for row in rows_of(rows)],
        "more": shown.table.num_rows - rows.num_rows + shown.left_out,
        "completeness": None if complete is None else [round(complete[at], 4) for at in chosen.to_pylist()],
        **_estimates(shown, chosen.to_pylist()),
        "trust": round(shown.representativeness.overall, 4),
        "trust_of": {name: round(part, 4) for name, part in shown.representativeness.by_operator.items()},
        "final": shown.final,
        "names": list(_names(plan, control, owned)),
        "chart": None if spec is None else _chart_facts(drawn(spec, shown)),
    }


def _chart_facts(chart: Chart) -> dict[str, Any]:
    """Bars are among the rows; lines have more points than those."""
    spec = chart.spec
    lines = chart.lines if spec.kind == "line" else ()
    return {"kind": spec.kind, "x": spec.x, "y": spec.y, "lines": [_line_facts(line) for line in lines]}


def _line_facts(line: Line) -> dict[str, Any]:
    return {
        "name": line.name,
        "x": [plain(point.x) for point in line.points],
        "y": [plain(point.y) for point in line.points],
        "gaps": [number for number, point in enumerate(line.points) if point.after_gap],
    }


def _largest(table: pa.Table, keys: int, by: str | None = None) -> pa.Array:
    """Numbers of the rows that are shown: all of them, or the largest by one measure, the first unless it is given."""
    everything = pa.array(range(table.num_rows), pa.int64())
    if table.num_rows <= SHOWN_ROWS:
        return everything
    measures = measured(table, keys)
    if not measures:
        return everything.slice(0, SHOWN_ROWS)
    column = measures[0] if by is None else by
    order = pc.sort_indices(table.select([column]), [(column, "descending")])
    return pc.cast(order.slice(0, SHOWN_ROWS), pa.int64())


def _estimates(shown: Shown, chosen: Sequence[int]) -> dict[str, Any]:
    """What the final values will be, by the column's number, and why there are none for others."""
    if shown.final:
        return {}
    numbers: dict[str, Any] = {}
    reasons: set[str] = set()
    for name, found in shown.estimates.items():
        if isinstance(found, str):
            reasons.add(found)
            continue
        of_rows = [found[at] for at in chosen]
        numbers[str(shown.table.schema.get_field_index(name))] = {
            part: [None if each is None else plain(float(f"{getattr(each, part):.6g}")) for each in of_rows]
            for part in ("value", "low", "high")
        }
    why = f"No estimate of final values: {'; '.join(sorted(reasons))}." if reasons and not numbers else ""
    return {"estimates": numbers, "estimates_note": why}


def _names(plan: PhysicalPlan, control: ControlPlane, rows: pa.Table) -> Iterator[dict[str, Any]]:
    """For inputs whose keys are columns of the result: the key of each row in words, its hash, its owner."""
    for operator, port in control.ports:
        columns = result_columns(plan, operator, port)
        if columns is None or not rows.num_rows:
            continue
        hashes = hash_rows([rows.column(column).combine_chunks() for column in columns])
        values = [[str(plain(value)) for value in values_of(rows.column(column))] for column in columns]
        yield {
            "operator": operator,
            "port": port,
            "keys": [", ".join(key)[:_LONGEST] for key in zip(*values, strict=True)],
            "hashes": [str(value) for value in hashes.tolist()],
            "owners": owners(hashes, plan.workers).tolist(),
        }


def plain(value: Any) -> Any:
    """A value of a result as JSON has it, and as a person reads it."""
    match value:
        case None | bool():
            return value
        case int():
            return value if abs(value) <= _EXACT else str(value)
        case float():
            return value if math.isfinite(value) else str(value)
        case Decimal():
            return float(value) if value.is_finite() else str(value)
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return str(value)
        case bytes():
            return value[: _LONGEST // 2].hex()
        case _:
            return str(value)[:_LONGEST]

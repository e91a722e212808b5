"""A scan that gives some of its output columns only, and reads no more than it needs for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from reshape.expressions.tree import ColumnRef, columns_of, renumbered
from reshape.scan.scan import Compute, Keep, Scan, Step


def narrowed(scan: Scan, outputs: Sequence[int]) -> Scan:
    """The same rows with these output columns, in this order. Partition columns stay: splits carry their values. All
    columns are read for what multiplies rows or looks others up."""
    schema = pa.schema([scan.schema.field(number) for number in outputs])
    chosen = Compute(tuple(ColumnRef(number, scan.schema.field(number).type) for number in outputs))
    steps = (*scan.steps, chosen)
    plain = [step for step in steps if isinstance(step, Keep | Compute)]
    if len(plain) < len(steps):
        return replace(scan, schema=schema, steps=steps)
    needed = _needed(plain)
    stored = len(scan.columns)
    kept = sorted(number for number in needed[0] if number < stored)
    everything = [*kept, *range(stored, stored + len(scan.partition_columns))]
    columns = tuple(scan.columns[number] for number in kept)
    return replace(scan, schema=schema, columns=columns, steps=_fewer(plain, needed, everything))


def _needed(steps: Sequence[Keep | Compute]) -> list[set[int]]:
    """The columns that must be there before each step, for itself and for those behind it; the last is a Compute."""
    needed: list[set[int]] = []
    behind: set[int] = set()
    for number, step in enumerate(reversed(steps)):
        if isinstance(step, Keep):
            behind = behind | columns_of(step.predicate)
        else:
            wanted = step.expressions if number == 0 else [step.expressions[column] for column in sorted(behind)]
            behind = set().union(*map(columns_of, wanted))
        needed.append(behind)
    needed.reverse()
    return needed


def _fewer(steps: Sequence[Keep | Compute], needed: Sequence[set[int]], everything: Sequence[int]) -> tuple[Step, ...]:
    """The steps over columns that have moved up, without expressions that nothing reads."""
    place = {old: new for new, old in enumerate(everything)}
    fewer: list[Step] = []
    for number, step in enumerate(steps):
        if isinstance(step, Keep):
            fewer.append(Keep(renumbered(step.predicate, place)))
            continue
        last = number + 1 == len(steps)
        wanted = range(len(step.expressions)) if last else sorted(needed[number + 1])
        fewer.append(Compute(tuple(renumbered(step.expressions[old], place) for old in wanted)))
        place = {old: new for new, old in enumerate(wanted)}
    return tuple(fewer)

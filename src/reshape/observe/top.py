"""The largest rows of a running result, for people to look at: the same ones from look to look."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reshape.errors import FlowError
from reshape.observe.cells import values_of
from reshape.observe.charts import measured

# A row takes the place of one that is shown when it is so much larger: those that are about alike would take turns.
LARGER = 1.1


@dataclass(frozen=True, slots=True)
class Top:
    """``rows`` keep their places from look to look; ``more``: how many rows there are beside them."""

    rows: pa.Table
    more: int


class StickyTop:
    """Chooses ``n`` rows by a column. ``keys``: how many columns at the front tell rows apart; without any, rows are
    chosen anew each time."""

    def __init__(self, n: int, by: str | None, keys: int) -> None:
        if n < 1:
            raise FlowError(f"top: n has to be 1 or more, not {n}")
        self._n = n
        self._by = by
        self._keys = keys
        self._kept: list[Hashable] = []

    def choose(self, table: pa.Table, left_out: int, *, final: bool) -> Top:
        """``left_out``: rows that are not in the table. ``final``: nothing changes any more, so the largest are shown,
        in their order."""
        values = _numbers(table, self._column(table))
        order = np.argsort(-values, kind="stable")
        names = self._names(table)
        if final or not self._keys:
            chosen = order[: self._n].tolist()
        else:
            place = {name: number for number, name in enumerate(names)}
            chosen = self._with_newcomers([place[name] for name in self._kept if name in place], order, values)
        self._kept = [names[number] for number in chosen] if self._keys else []
        return Top(table.take(pa.array(chosen, pa.int64())), table.num_rows - len(chosen) + left_out)

    def _with_newcomers(
        self, kept: list[int], order: npt.NDArray[np.int64], values: npt.NDArray[np.float64]
    ) -> list[int]:
        chosen = list(kept)
        for number in order.tolist():
            if number in kept:
                continue
            if len(chosen) < self._n:
                chosen.append(number)
                continue
            weakest = min(range(len(chosen)), key=lambda place: values[chosen[place]])
            least = values[chosen[weakest]]
            if values[number] <= max(least * LARGER, least):
                break
            chosen[weakest] = number
        return chosen

    def _column(self, table: pa.Table) -> str:
        if self._by is None:
            measures = measured(table, self._keys)
            if not measures:
                raise FlowError("top: no column is a number to choose rows by")
            return measures[0]
        numeric: list[str] = measured(table, 0)
        if self._by not in numeric:
            raise FlowError(f"top: {self._by!r} is no column of numbers; those are {', '.join(numeric) or 'none'}")
        return self._by

    def _names(self, table: pa.Table) -> list[Hashable]:
        columns = [values_of(table.column(number)) for number in range(self._keys)]
        return [repr(values) for values in zip(*columns, strict=True)] if columns else list(range(table.num_rows))


def _numbers(table: pa.Table, column: str) -> npt.NDArray[np.float64]:
    values = table.column(column).combine_chunks().cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return np.where(np.isnan(values), -np.inf, values)

"""The largest rows, the same ones from look to look."""

from __future__ import annotations

import pyarrow as pa
import pytest

from reshape.errors import FlowError
from reshape.observe.top import StickyTop


def table(**counts: int) -> pa.Table:
    return pa.table({"k": list(counts), "n": list(counts.values()), "m": [float(-n) for n in counts.values()]})


def names(top: StickyTop, rows: pa.Table, *, final: bool = False) -> list[str]:
    found: list[str] = top.choose(rows, 5, final=final).rows["k"].to_pylist()
    return found


def test_rows_that_are_about_alike_do_not_take_turns() -> None:
    top = StickyTop(2, None, 1)
    assert names(top, table(a=100, b=90, c=89, d=1)) == ["a", "b"]
    assert names(top, table(c=200, b=190, a=201, d=1)) == ["a", "b"]
    assert names(top, table(a=300, b=290, c=400, d=1)) == ["a", "c"], "b is not among the largest any more"
    assert names(top, table(a=300, b=310, c=301, d=1), final=True) == ["b", "c"]


def test_it_says_how_many_more_there_are() -> None:
    assert StickyTop(2, None, 1).choose(table(a=1, b=2, c=3), 7, final=False).more == 8
    assert StickyTop(9, None, 1).choose(table(a=1, b=2, c=3), 0, final=False).more == 0


def test_a_row_that_is_gone_makes_room() -> None:
    top = StickyTop(2, "n", 1)
    assert names(top, table(a=100, b=90, c=80)) == ["a", "b"]
    assert names(top, table(a=100, c=80)) == ["a", "c"]


def test_by_another_column_and_without_keys() -> None:
    assert names(StickyTop(1, "m", 1), table(a=3, b=1, c=2)) == ["b"]
    assert names(StickyTop(2, "n", 0), table(a=3, b=1, c=2)) == ["a", "c"]


def test_nulls_come_last() -> None:
    rows = pa.table({"k": ["a", "b"], "n": pa.array([None, 1])})
    assert names(StickyTop(1, "n", 1), rows) == ["b"]


def test_what_cannot_be_chosen_by_is_said() -> None:
    with pytest.raises(FlowError, match="'k' is no column of numbers; those are n, m"):
        names(StickyTop(1, "k", 1), table(a=1))
    with pytest.raises(FlowError, match="n has to be 1 or more, not 0"):
        StickyTop(0, None, 1)
    with pytest.raises(FlowError, match="no column is a number"):
        names(StickyTop(1, None, 1), pa.table({"k": ["a"]}))

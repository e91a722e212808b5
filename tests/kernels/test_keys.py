"""Numbers for keys: dense, equal for equal keys, with the first row of each, whichever way they are made."""

from __future__ import annotations

from decimal import Decimal
from math import isnan
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reshape.kernels import keys as keys_module
from reshape.kernels.keys import KeyColumns

LEAST, LARGEST = -(2**63), 2**63 - 1

COLUMNS = {
    "near": pa.array([3, -2, 3, 0, 7, -2], pa.int64()),
    "near, with nulls": pa.array([3, None, 3, 0, None, -2], pa.int64()),
    "far": pa.array([10**12, -5, 10**12, 4, LARGEST, LEAST], pa.int64()),
    "far, with nulls": pa.array([10**12, None, LARGEST, LEAST, None, 10**12], pa.int64()),
    "both ends": pa.array([LEAST, LARGEST, LEAST, LARGEST, 0, 0], pa.int64()),
    "least": pa.array([LEAST, LEAST + 3, LEAST, LEAST + 1, LEAST, LEAST + 3], pa.int64()),
    "largest": pa.array([LARGEST, LARGEST - 3, LARGEST, LARGEST, LARGEST - 1, LARGEST], pa.int64()),
    "unsigned": pa.array([2**64 - 1, 2**63, 0, 2**64 - 1, 2**63 - 1, 0], pa.uint64()),
    "small": pa.array([-128, 127, -128, 0, 0, 1], pa.int8()),
    "dates": pa.array([-1, 19_000, -1, 19_001, 19_000, 0], pa.int32()).cast(pa.date32()),
    "booleans": pa.array([True, False, None, True, None, False]),
    "floats": pa.array([0.0, -0.0, float("nan"), 1.5, float("nan"), None]),
    "decimals": pa.array([Decimal("1.00"), Decimal("-1.00"), None, Decimal("1.00"), Decimal(0), Decimal(0)]),
    "strings": pa.array(["a", None, "b", "a", "", None]),
    "all null": pa.array([None] * 6, pa.int32()),
    "nothing": pa.nulls(6),
}


def groups(columns: list[pa.Array]) -> list[list[int]]:
    """Rows with equal keys, found row by row: of the first row of each, the rows."""
    rows: dict[Any, list[int]] = {}
    for row, key in enumerate(zip(*(column.to_pylist() for column in columns), strict=True)):
        same = tuple("NaN" if isinstance(value, float) and isnan(value) else value for value in key)
        rows.setdefault(same, []).append(row)
    return list(rows.values())


def check(columns: list[pa.Array]) -> None:
    codes, first = KeyColumns(columns, len(columns[0])).codes()
    assert codes.dtype == np.int64
    by_code: dict[int, list[int]] = {}
    for row, code in enumerate(codes.tolist()):
        by_code.setdefault(code, []).append(row)
    assert sorted(by_code) == list(range(len(first))), "dense"
    assert sorted(by_code.values()) == groups(columns)
    assert {code: rows[0] for code, rows in by_code.items()} == dict(enumerate(first.tolist()))


@pytest.fixture(params=[1_024, 0], ids=["few places", "by hash where there are more than two for a row"])
def places(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys_module, "_FEW_PLACES", request.param)


@pytest.mark.usefixtures("places")
@pytest.mark.parametrize("name", COLUMNS)
def test_one_column(name: str) -> None:
    check([COLUMNS[name]])
    check([COLUMNS[name].slice(2, 3)])
    check([COLUMNS[name].slice(0, 0)])


@pytest.mark.usefixtures("places")
@pytest.mark.parametrize("name", COLUMNS)
def test_two_columns(name: str) -> None:
    for other in COLUMNS.values():
        check([COLUMNS[name], other])


def test_structs_and_three_columns() -> None:
    struct = pa.StructArray.from_arrays(
        [COLUMNS["near"], COLUMNS["booleans"]], ["n", "b"], mask=pa.array([False, True, False, False, True, False])
    )
    codes, first = KeyColumns([struct], 6).codes()
    assert codes.tolist() == codes[[0, 1, 2, 3, 1, 5]].tolist(), "two nulls are equal, whatever lies below them"
    assert len(first) == 5
    check([COLUMNS["near"], COLUMNS["strings"], COLUMNS["far"]])


@settings(deadline=None)
@given(st.data(), st.integers(1, 60), st.sampled_from([1, 3, 1_000, 2**40]), st.sampled_from([0, -7, LEAST]))
def test_any_spans(data: st.DataObject, rows: int, step: int, base: int) -> None:
    values = st.one_of(st.none(), st.integers(0, 50).map(lambda n: base + n * step))
    drawn = [data.draw(st.lists(values, min_size=rows, max_size=rows)) for _ in range(2)]
    check([pa.array(column, pa.int64()) for column in drawn])

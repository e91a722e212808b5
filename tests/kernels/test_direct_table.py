"""Numbers by value without hashes, and the key index that uses them where it may."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reshape.kernels.direct_table import DirectTable
from reshape.kernels.hashing import U64, hash_rows
from reshape.kernels.key_index import KeyIndex
from reshape.kernels.keys import KeyColumns

LEAST, LARGEST = -(2**63), 2**63 - 1


def words(values: list[int]) -> U64:
    return np.array([value % 2**64 for value in values], dtype=np.uint64)


@pytest.mark.parametrize("base", [0, -5, -100_000, LEAST, LARGEST - 20, 2**32, 2**63 - 10, 2**64 - 21])
def test_values_close_together_are_found_anywhere_in_64_bits(base: int) -> None:
    values = [base + offset for offset in (3, 0, 20, 3, 7, 0)]
    table = DirectTable.of(words(values))
    if base == 2**63 - 10:  # as signed numbers they lie at both ends
        assert table is None
        return
    assert table is not None
    assert table.codes.tolist() == [0, 1, 2, 0, 3, 1]
    assert table.size == 4
    asked = [*values, base + 1, base - 1, base + 21, base + 2**63, base - 2**62, 0x5555555555555555, LEAST, LARGEST]
    known = {value % 2**64: code for value, code in zip(values, table.codes.tolist(), strict=True)}
    assert table.find(words(asked)).tolist() == [known.get(value % 2**64, -1) for value in asked]


def test_values_far_apart_or_none_have_no_table() -> None:
    assert DirectTable.of(words([])) is None
    assert DirectTable.of(words([LEAST, LARGEST])) is None
    assert DirectTable.of(words([-1, 2**63 - 1])) is None
    assert DirectTable.of(words([0, 65_535])) is not None
    assert DirectTable.of(words([0, 65_536])) is None
    many = np.arange(100_000, dtype=np.uint64) * np.uint64(8)
    assert DirectTable.of(many) is not None
    assert DirectTable.of(many * np.uint64(2)) is None


@given(st.lists(st.integers(-40, 40), min_size=1), st.lists(st.integers(-200, 200)), st.sampled_from([0, LEAST + 40]))
def test_numbers_are_given_in_the_order_of_first_rows(build: list[int], probe: list[int], base: int) -> None:
    table = DirectTable.of(words([base + value for value in build]))
    assert table is not None
    number = {value: code for code, value in enumerate(dict.fromkeys(build))}
    assert table.codes.tolist() == [number[value] for value in build]
    assert table.find(words([base + value for value in probe])).tolist() == [number.get(value, -1) for value in probe]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int8(), [-128, 127, 0, None, 5, 5]),
        (pa.int32(), [-5, None, 7, -5, 2**31 - 1]),
        (pa.int64(), [-5, 7, None, LEAST, LARGEST, 7]),
        (pa.uint64(), [2**64 - 1, 2**64 - 3, 2**63, None]),
        (pa.uint8(), [255, 0, 0]),
        (pa.bool_(), [True, False, None, True]),
        (pa.date32(), [-3, 19_000, None, 19_001]),
        (pa.timestamp("us"), [0, -7, 1_700_000_000_000_000]),
        (pa.float64(), [0.0, -0.0, float("nan"), 1.5, None]),
        (pa.string(), ["a", "b", None, "a"]),
    ],
    ids=str,
)
def test_an_index_finds_the_rows_of_any_type(kind: pa.DataType, values: list[Any]) -> None:
    column = pa.array(values, pa.int32()).cast(kind) if pa.types.is_date32(kind) else pa.array(values, kind)
    keys = KeyColumns([column], len(column))
    nulls = keys.nulls()
    rows = None if nulls is None else np.flatnonzero(~nulls)
    exact = not pa.types.is_string(kind)
    index = KeyIndex(lambda: hash_rows([column]), keys, exact=exact, rows=rows)
    found = index.find(lambda: hash_rows([column]), keys)
    indexed = range(len(column)) if rows is None else rows.tolist()
    assert [found[row] for row in indexed] == index.slots.tolist()
    one_by_one = KeyIndex(lambda: np.zeros(len(column), np.uint64), keys, exact=False, rows=rows)
    assert index.slots.tolist() == one_by_one.slots.tolist()
    assert index.representatives.tolist() == one_by_one.representatives.tolist()
    assert index.nbytes > 0

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reshape.kernels.hash_table import HashTable
from reshape.kernels.hashing import U64, hash_rows
from reshape.kernels.key_table import KeptTogether, KeyTable
from reshape.kernels.keys import KeyColumns

HASHES_LIKE_NULL = -6884282663029611473  # the one long that does


@pytest.mark.parametrize("different", [1, 10, 1_000, 10**9])
@pytest.mark.parametrize("rows", [1, 777, 50_001])
def test_hashes_are_numbered_in_the_order_in_which_they_come(different: int, rows: int) -> None:
    hashes = np.random.default_rng(different).integers(0, different, 120_000).astype(np.uint64)
    hashes = hashes[: 30 * rows]
    table = HashTable()
    parts = [table.number(hashes[start : start + rows], len(table)) for start in range(0, len(hashes), rows)]
    wanted, uniques = pd.factorize(hashes)
    assert (np.concatenate(parts) == wanted).all()
    assert len(table) == len(uniques)
    assert (table.find(hashes) == wanted).all()
    assert (table.find(hashes + np.uint64(10**10)) == -1).all()


def test_hashes_that_share_their_high_or_low_bits() -> None:
    for hashes in (np.arange(50_000, dtype=np.uint64) << np.uint64(40), np.arange(50_000, dtype=np.uint64)):
        table = HashTable()
        assert (table.number(hashes, 0) == np.arange(50_000)).all()
        assert (table.find(hashes[::-1]) == np.arange(50_000)[::-1]).all()


def test_numbers_begin_where_they_are_told_to() -> None:
    table = HashTable()
    assert table.number(np.array([7, 8, 7], dtype=np.uint64), 100).tolist() == [100, 101, 100]
    assert table.number(np.array([9, 8], dtype=np.uint64), 500).tolist() == [500, 101]


class Numbered:
    """A key table together with the keys that it numbers."""

    def __init__(self, kinds: list[pa.DataType], modulus: int | None) -> None:
        self.table = KeyTable(kinds, trusted=modulus is None)
        self.columns = [pa.array([], kind) for kind in kinds]
        self.modulus = modulus

    def add(self, columns: list[pa.Array]) -> list[int]:
        size = len(columns[0])
        known = KeptTogether(self.columns, len(self.columns[0]))
        numbers, new = self.table.number(self._hashes(columns), KeyColumns(columns, size), known)
        chosen = pa.array(new)
        self.columns = [pa.concat_arrays([a, b.take(chosen)]) for a, b in zip(self.columns, columns, strict=True)]
        assert len(self.table) == len(self.columns[0])
        return list(numbers.tolist())

    def find(self, columns: list[pa.Array]) -> list[int]:
        known = KeptTogether(self.columns, len(self.columns[0]))
        keys = KeyColumns(columns, len(columns[0]))
        return list(self.table.find(self._hashes(columns), keys, known).tolist())

    def _hashes(self, columns: list[pa.Array]) -> U64:
        hashes = hash_rows(columns)
        return hashes if self.modulus is None else hashes % np.uint64(self.modulus)


KEYS = st.lists(
    st.tuples(st.sampled_from([None, 0, 1, -1, 2**63 - 1]), st.sampled_from([None, "", "a", "a\0", "x" * 300])),
    max_size=30,
)


@given(parts=st.lists(KEYS, max_size=5), modulus=st.sampled_from([None, 1, 2, 7]))
def test_keys_that_share_a_hash_are_told_apart(parts: list[list[tuple[int, str]]], modulus: int | None) -> None:
    numbered = Numbered([pa.int64(), pa.string()], modulus)
    numbers: dict[tuple[int, str], int] = {}
    for part in parts:
        columns = [pa.array([row[0] for row in part], pa.int64()), pa.array([row[1] for row in part], pa.string())]
        for row, number in zip(part, numbered.find(columns), strict=True):
            assert number == numbers.get(row, -1)
        for row, number in zip(part, numbered.add(columns), strict=True):
            assert number == numbers.setdefault(row, number)
    assert sorted(numbers.values()) == list(range(len(numbers)))


@pytest.mark.parametrize("null_first", [True, False])
def test_null_is_not_the_number_that_hashes_like_it(null_first: bool) -> None:
    numbered = Numbered([pa.int64()], None)
    values = [None, HASHES_LIKE_NULL] if null_first else [HASHES_LIKE_NULL, None]
    for number, value in enumerate(values):
        column = [pa.array([value], pa.int64())]
        assert numbered.find(column) == [-1]
        assert numbered.add(column) == [number]
        assert numbered.find(column) == [number]
    assert numbered.add([pa.array(values[::-1], pa.int64())]) == [1, 0]


def test_huge_strings_and_many_keys() -> None:
    numbered = Numbered([pa.string()], None)
    huge = ["x" * 2_000_000 + tail for tail in "ab"]
    assert numbered.add([pa.array([*huge, huge[0]])]) == [0, 1, 0]
    many = [str(number) for number in range(100_000)]
    assert numbered.add([pa.array(many)]) == list(range(2, 100_002))
    assert numbered.find([pa.array([huge[1], "99999", "100000"])]) == [1, 100_001, -1]

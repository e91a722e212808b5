import numpy as np
import pytest

from reshape.kernels.codes import different_pairs, order_of_codes, sorted_segments


@pytest.mark.parametrize("count", [1, 300, 1 << 16, (1 << 16) + 1, 10**6, 1 << 62])
def test_rows_of_one_code_keep_their_order(count: int) -> None:
    codes = np.random.default_rng(count).integers(0, count, 5_000)
    codes[::3] = count - 1
    assert (order_of_codes(codes, count) == np.argsort(codes, kind="stable")).all()
    assert len(order_of_codes(codes[:0], count)) == 0


@pytest.mark.parametrize("rows", [0, 1, 2_000])
def test_different_pairs(rows: int) -> None:
    rng = np.random.default_rng(rows)
    first, second = rng.integers(0, 20, rows), rng.integers(0, 32, rows)
    found = list(zip(*(codes.tolist() for codes in different_pairs(first, second, 32)), strict=True))
    assert found == sorted(set(zip(first.tolist(), second.tolist(), strict=True)))


@pytest.mark.parametrize("lengths", [[], [0], [3, 0, 5], [2_000], [1, 1_024, 0, 1_023, 5_000, 2]])
def test_segments_are_sorted_each_for_itself(lengths: list[int]) -> None:
    rng = np.random.default_rng(len(lengths))
    values = rng.normal(size=sum(lengths))
    values[::7] = np.nan
    values[::11] = -np.inf
    before = values.copy()
    found = sorted_segments(values, np.array(lengths, dtype=np.int64))
    ends = np.cumsum(lengths, dtype=np.int64)
    for start, end in zip(ends - lengths, ends, strict=True):
        assert np.array_equal(found[start:end], np.sort(before[start:end]), equal_nan=True)
    assert np.array_equal(values, before, equal_nan=True)

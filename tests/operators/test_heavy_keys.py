"""Heavy keys are found in a sample and their rows cut into ranges; all other keys stay with their owner."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from reshape.kernels.hashing import hash_rows, owners
from reshape.kernels.keys import KeyColumns
from reshape.kernels.ordering import Ordering, SortKey
from reshape.kernels.sort_keys import sorted_order
from reshape.operators.heavy_keys import HeavyKeys, most_heavy_keys

from .samples import NAN, VALUES, table

WORKERS = 4
BY_KEY = Ordering((SortKey(0), SortKey.descending(1), SortKey(2)))


def batch_of(**columns: Any) -> pa.RecordBatch:
    return pa.record_batch(columns)


def spread(heavy: HeavyKeys, batch: pa.RecordBatch) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The owners of rows by hash, and with heavy keys."""
    hashes = hash_rows(batch.columns[: heavy.keyed])
    by_hash = owners(hashes, WORKERS)
    return by_hash, heavy.spread(batch, by_hash, hashes)


@pytest.mark.parametrize("hot", [7, None])
def test_a_heavy_key_is_cut_into_ranges_of_its_order(hot: int | None) -> None:
    rng = np.random.default_rng(1)
    keys = [hot if rng.random() < 0.6 else int(n) for n in rng.integers(10, 500, 4_000)]
    batch = batch_of(k=pa.array(keys, pa.int64()), o=rng.random(4_000), v=np.arange(4_000))
    heavy = HeavyKeys.from_sample(batch.slice(0, 2_000), BY_KEY, 1, WORKERS)
    assert heavy.keys.to_pydict() == {"k": [hot]}
    assert heavy.bounds.num_rows == WORKERS - 1
    by_hash, owner = spread(heavy, batch)
    is_hot = np.array([key == hot for key in keys])
    assert (owner[~is_hot] == by_hash[~is_hot]).all()
    shares = np.bincount(owner[is_hot], minlength=WORKERS) / is_hot.sum()
    assert shares.min() > 0.2
    order = sorted_order(batch.columns, BY_KEY)
    assert (np.diff(owner[order][is_hot[order]].astype(int)) >= 0).all(), "ranges in the order of workers"


@pytest.mark.parametrize("kind", VALUES)
def test_peers_are_never_apart(kind: str) -> None:
    """Nulls, NaN and zeros of both signs in keys and in the order; batches know their nulls one by one."""
    data = table({"k": kind, "o": kind}, 1_500, seed=2, nulls=0.2)
    batch = data.combine_chunks().to_batches()[0]
    heavy = HeavyKeys.from_sample(batch, Ordering((SortKey(0), SortKey(1, True, False))), 1, WORKERS)
    assert heavy.keys.num_rows > 0
    owner = np.concatenate([spread(heavy, batch.slice(at, 7))[1] for at in range(0, batch.num_rows, 7)])
    codes, _ = KeyColumns(batch.columns, batch.num_rows).codes()
    for code in range(codes.max() + 1):
        assert len(set(owner[codes == code].tolist())) == 1
    keys, _ = KeyColumns(batch.columns[:1], batch.num_rows).codes()
    parted = [key for key in range(keys.max() + 1) if len(set(owner[keys == key].tolist())) > 1]
    assert parted


def test_what_is_not_heavy() -> None:
    even = batch_of(k=np.arange(1_000) % 100, o=np.arange(1_000))
    order = Ordering((SortKey(0), SortKey(1)))
    assert HeavyKeys.from_sample(even, order, 1, WORKERS).bounds.num_rows == 0
    alike = batch_of(k=[1] * 100, o=[2.0, -0.0, 0.0, NAN] * 25)
    assert HeavyKeys.from_sample(alike, order, 1, WORKERS).bounds.num_rows == 2
    equal = batch_of(k=[1] * 100, o=[0.0, -0.0] * 50)
    assert HeavyKeys.from_sample(equal, order, 1, WORKERS).bounds.num_rows == 0, "all are peers"
    few = batch_of(k=[1] * 7, o=np.arange(7))
    assert HeavyKeys.from_sample(few, order, 1, WORKERS).bounds.num_rows == 0, "too few to tell"
    assert HeavyKeys.from_sample(few.slice(0, 0), order, 1, WORKERS).bounds.num_rows == 0
    one = batch_of(k=[1] * 100, o=np.arange(100))
    assert HeavyKeys.from_sample(one, order, 1, 1).bounds.num_rows == 0, "one worker has all ranges"


def test_of_several_heavy_keys_bounds_lie_side_by_side() -> None:
    rows = np.arange(3_000)
    batch = batch_of(k=np.where(rows % 3 == 2, rows, rows % 3), l=pa.array(["x"] * 3_000), o=rows)
    heavy = HeavyKeys.from_sample(batch, Ordering((SortKey(0), SortKey(1), SortKey.descending(2))), 2, WORKERS)
    assert sorted(heavy.keys["k"].to_pylist()) == [0, 1]
    _, owner = spread(heavy, batch)
    for key in (0, 1):
        assert (np.bincount(owner[rows % 3 == key], minlength=WORKERS) > 200).all()
    assert most_heavy_keys(WORKERS) >= heavy.keys.num_rows


def test_another_key_with_the_same_hash_is_not_heavy() -> None:
    batch = batch_of(k=[1] * 100 + [2] * 20, o=np.arange(120))
    heavy = HeavyKeys.from_sample(batch, Ordering((SortKey(0), SortKey(1))), 1, WORKERS)
    assert 1 in heavy.keys["k"].to_pylist()
    only_one = HeavyKeys(
        heavy.ordering, 1, heavy.bounds.filter(pa.array([k == 1 for k in heavy.bounds["k"].to_pylist()]))
    )
    hashes = np.full(120, hash_rows([pa.array([1])])[0], dtype=np.uint64)
    owner = only_one.spread(batch, np.full(120, 1, dtype=np.uint16), hashes)
    assert (owner[100:] == 1).all()
    assert len(set(owner[:100].tolist())) == WORKERS

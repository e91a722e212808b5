import datetime as dt
import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reshape.kernels.hashing import UnsupportedKeyType, hash_rows
from reshape.kernels.ordering import Ordering, SortKey
from reshape.operators.base import MiniPartitions
from reshape.operators.errors import PortError, StateMismatch
from reshape.operators.range_bounds import RangeBounds
from reshape.operators.sort import Sort, SortSpec

from .samples import (
    VALUES,
    batches_of,
    feed,
    hypothesis_rows,
    in_order,
    listed,
    over_the_wire,
    rows_held,
    rows_of,
    table,
)

DIRECTIONS = [(ascending, first) for ascending in (True, False) for first in (True, False)]


def ordered(data: pa.Table, ordering: Ordering, rows: int = 50, **options: Any) -> list[tuple[Any, ...]]:
    operator = Sort(SortSpec(data.schema, ordering), **options)
    assert feed(operator, 0, data, rows) == []
    return listed(operator.finish())


def with_numbers(data: pa.Table) -> pa.Table:
    """A column that tells rows apart, so that lost or mixed up rows and unstable ties are seen."""
    return data.append_column("row", pa.array(range(data.num_rows), pa.int64()))


@pytest.mark.parametrize("kind", VALUES)
def test_equals_spark(spark: Any, kind: str) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    data = with_numbers(table({"a": kind, "b": "double"}, 120, seed=1))
    frame = spark.createDataFrame(data)
    for ascending, first in (DIRECTIONS[0], DIRECTIONS[3]) if kind != "string" else DIRECTIONS:
        name = ("asc" if ascending else "desc") + ("_nulls_first" if first else "_nulls_last")
        wanted = frame.orderBy(getattr(F.col("a"), name)(), F.col("b").desc(), "row").toArrow()
        ordering = Ordering((SortKey(0, ascending, first), SortKey.descending(1), SortKey(2)))
        assert ordered(data, ordering, run_rows=40) == listed(wanted)


@pytest.mark.parametrize(("ascending", "first"), DIRECTIONS)
@pytest.mark.parametrize("kind", VALUES)
def test_every_type_and_direction(kind: str, ascending: bool, first: bool) -> None:
    data = with_numbers(table({"a": kind}, 150, seed=2))
    ordering = Ordering((SortKey(0, ascending, first),))
    for run_rows in (10, 64, 1000):
        assert ordered(data, ordering, run_rows=run_rows) == in_order(data, ordering)


def test_unsigned_integers_and_time_types() -> None:
    data = pa.table(
        {
            "u": pa.array([2**64 - 1, 0, 2**63], pa.uint64()),
            "t": pa.array([dt.time(3), dt.time(1), dt.time(2)]),
            "d": pa.array([dt.timedelta(-1), dt.timedelta(1), dt.timedelta(0)]),
        }
    )
    for i, wanted in enumerate(([0, 2**63, 2**64 - 1], [dt.time(1), dt.time(2), dt.time(3)], None)):
        found = [row[i] for row in ordered(data, Ordering((SortKey(i),)))]
        assert found == (wanted or sorted(found))


def test_structs_are_ordered_field_by_field() -> None:
    kind = pa.struct([("a", pa.int64()), ("b", pa.string())])
    values = [{"a": 2, "b": "x"}, {"a": 1, "b": "z"}, None, {"a": 1, "b": None}, {"a": None, "b": "q"}]
    data = pa.table({"s": pa.array(values, kind)})
    found = Sort(SortSpec(data.schema, Ordering((SortKey(0),))))
    feed(found, 0, data)
    (batch,) = found.finish()
    assert batch.column(0).to_pylist() == [values[2], values[4], values[3], values[1], values[0]]


def test_long_common_prefixes_and_ends() -> None:
    words = ["x" * n for n in (0, 1, 7, 8, 9, 16, 17, 100)] + ["x" * 8 + "\0", "x" * 16 + "a", "x" * 99 + "w"]
    data = with_numbers(pa.table({"a": pa.array(words * 3)}))
    for ascending in (True, False):
        ordering = Ordering((SortKey(0, ascending),))
        assert ordered(data, ordering, rows=4, run_rows=5) == in_order(data, ordering)


def test_shared_beginnings_with_nulls() -> None:
    words = ["https://www.a", "https://www.b", None, "https://www.", "https://www.a/long/path", None, "https://www.a"]
    data = with_numbers(pa.table({"a": pa.array(words)}))
    for ordering in (Ordering((SortKey(0),)), Ordering((SortKey.descending(0),))):
        assert ordered(data, ordering, run_rows=3) == in_order(data, ordering)
        sample = next(batches_of(data, 100))
        ids = RangeBounds.from_sample(sample, ordering, 3).partition(sample)
        ranks = {row[1]: i for i, row in enumerate(in_order(data, ordering))}
        assert (np.diff(ids[sorted(range(7), key=lambda row: ranks[row])]) >= 0).all()


@pytest.mark.parametrize("distinct", [3, 300, 150_000])
def test_many_rows_keep_their_order_among_equals(distinct: int) -> None:
    """Large enough for every way in which equal first digits are told apart."""
    rng = np.random.default_rng(distinct)
    rows = 200_000
    a, b = rng.integers(0, distinct, rows), rng.integers(-3, 3, rows)
    data = with_numbers(pa.table({"a": pa.array(a), "b": pa.array(b)}))
    for run_rows in (30_000, rows):
        operator = Sort(SortSpec(data.schema, Ordering((SortKey.descending(0), SortKey(1)))), run_rows=run_rows)
        feed(operator, 0, data, 10_000)
        found = np.concatenate([batch.column("row").to_numpy() for batch in operator.finish()])
        assert np.array_equal(found, np.lexsort((b, -a)))


def test_empty_input_and_single_row() -> None:
    data = with_numbers(table({"a": "string"}, 1, seed=3))
    ordering = Ordering((SortKey(0), SortKey(1)))
    assert ordered(data, ordering) == listed(data)
    assert ordered(data.slice(0, 0), ordering) == []


def test_output_is_bounded() -> None:
    data = with_numbers(table({"a": "long"}, 100, seed=4))
    operator = Sort(SortSpec(data.schema, Ordering((SortKey(0),))), output_rows=30, run_rows=20)
    feed(operator, 0, data, 7)
    assert [batch.num_rows for batch in operator.finish()] == [30, 30, 30, 10]


KEYS = st.lists(
    st.builds(SortKey, st.integers(0, 2), st.booleans(), st.booleans()),
    min_size=1,
    max_size=3,
    unique_by=lambda k: k.column,
).map(lambda keys: Ordering(tuple(keys)))
KINDS = {"a": "double", "b": "string", "c": "decimal"}


@settings(max_examples=60)
@given(
    data=hypothesis_rows(KINDS),
    ordering=KEYS,
    shares=st.lists(st.integers(0, 2), min_size=1, max_size=40),
    rows=st.integers(1, 9),
    run_rows=st.integers(1, 15),
)
def test_rows_split_over_owner_and_helpers(
    data: pa.Table, ordering: Ordering, shares: list[int], rows: int, run_rows: int
) -> None:
    """Split by records; some helpers may have got no rows at all."""
    data = with_numbers(data)
    ordering = Ordering((*ordering.keys, SortKey(3)))
    spec = SortSpec(data.schema, ordering)
    workers = [Sort(spec, scattered=i > 0, run_rows=run_rows, output_rows=7) for i in range(3)]
    for i, batch in enumerate(batches_of(data, rows)):
        workers[shares[i % len(shares)]].add(0, batch)
        workers[i % 3].preview(2)
    owner, *helpers = workers
    owner.end_port(0)
    for helper in helpers:
        owner.merge_state(over_the_wire(helper.export_scattered()))
        assert rows_held(helper) == 0
        assert list(helper.export_scattered()) == []
    assert listed(owner.finish()) == in_order(data, ordering)


@settings(max_examples=30)
@given(data=hypothesis_rows(KINDS), ordering=KEYS, modulus=st.integers(1, 3))
def test_named_keys_move_and_no_others(data: pa.Table, ordering: Ordering, modulus: int) -> None:
    spec = SortSpec(data.schema, ordering)
    keys = MiniPartitions(frozenset({0}), 1, modulus)
    operator = Sort(spec, run_rows=6)
    feed(operator, 0, data, 4)
    moved = list(operator.export_state(keys, remove=True))
    stayed = list(operator.finish())
    for batches, here in ((moved, True), (stayed, False)):
        for batch in batches:
            assert (keys.holds(hash_rows([batch.column(i) for i in ordering.columns])) == here).all()
    assert rows_of(moved) + rows_of(stayed) == rows_of(data)


def test_state_stays_when_it_is_copied() -> None:
    data = table({"a": "string"}, 50, seed=5)
    spec = SortSpec(data.schema, Ordering((SortKey(0),)))
    operator, restored = Sort(spec), Sort(spec)
    feed(operator, 0, data)
    restored.merge_state(over_the_wire(operator.export_state(None, remove=False)))
    restored.end_port(0)
    assert rows_held(operator) == rows_held(restored) == 50
    assert listed(operator.finish()) == listed(restored.finish())


def test_preview_shows_the_first_rows_so_far() -> None:
    data = pa.table({"a": pa.array([5, 3, 9, 1, 7])})
    operator = Sort(SortSpec(data.schema, Ordering((SortKey(0),))), run_rows=2)
    assert operator.preview(3) is None
    for batch in batches_of(data, 1):
        operator.add(0, batch)
    shown = operator.preview(3)
    assert shown is not None
    assert shown.column(0).to_pylist() == [1, 3, 5]
    assert operator.spec.ports[0].mutable
    assert operator.state_bytes == 40


def test_a_scattered_part_cannot_finish() -> None:
    data = pa.table({"a": pa.array([1])})
    operator = Sort(SortSpec(data.schema, Ordering((SortKey(0),))), scattered=True)
    operator.end_port(0)
    with pytest.raises(PortError, match="merged at its owner"):
        operator.finish()


def test_errors_name_what_is_wrong() -> None:
    lists = pa.schema([("l", pa.list_(pa.int8()))])
    with pytest.raises(UnsupportedKeyType, match="sort: column 'l' of type list"):
        Sort(SortSpec(lists, Ordering((SortKey(0),))))
    operator = Sort(SortSpec(pa.schema([("a", pa.int64())]), Ordering((SortKey(0),))))
    with pytest.raises(StateMismatch, match="sort: cannot merge state"):
        operator.merge_state([pa.record_batch({"b": pa.array([1])})])
    with pytest.raises(ValueError, match="at least one key"):
        Ordering(())


@settings(max_examples=80)
@given(sample=hypothesis_rows(KINDS), data=hypothesis_rows(KINDS), ordering=KEYS, ranges=st.integers(1, 6))
def test_ranges_are_in_order_and_equal_keys_stay_together(
    sample: pa.Table, data: pa.Table, ordering: Ordering, ranges: int
) -> None:
    """Also for rows that the sample has nothing like."""
    bounds = RangeBounds.from_sample(next(batches_of(sample, 100)), ordering, ranges)
    bounds = pickle.loads(pickle.dumps(bounds))
    assert bounds.ranges <= ranges
    ids = np.concatenate([bounds.partition(batch) for batch in batches_of(data, 7)])
    assert ((ids >= 0) & (ids < bounds.ranges)).all()
    parts = [data.take(pa.array(np.flatnonzero(ids == i))) for i in range(bounds.ranges)]
    one_by_one = [row for part in parts for row in in_order(part, ordering)]
    keyed = [[row[i] for i in ordering.columns] for row in one_by_one]
    assert keyed == [[row[i] for i in ordering.columns] for row in in_order(data, ordering)]
    of_key: dict[tuple[Any, ...], int] = {}
    for row, found in zip(listed(data), ids.tolist(), strict=True):
        assert of_key.setdefault(tuple(row[i] for i in ordering.columns), found) == found
    used = bounds.partition(next(batches_of(sample, 100)))
    assert set(used.tolist()) == (set(range(bounds.ranges)) if len(sample) else set())


def test_ranges_are_even_where_keys_allow_it() -> None:
    rng = np.random.default_rng(0)
    batch = pa.record_batch({"a": pa.array(rng.permutation(10_000))})
    bounds = RangeBounds.from_sample(batch, Ordering((SortKey(0),)), 8)
    assert np.bincount(bounds.partition(batch)).tolist() == [1250] * 8


@pytest.mark.parametrize("place", [0, 50, 99])
def test_a_frequent_key_has_a_range_of_its_own(place: int) -> None:
    values = [place] * 900 + list(range(100))
    batch = pa.record_batch({"a": pa.array(values)})
    ids = RangeBounds.from_sample(batch, Ordering((SortKey(0),)), 4).partition(batch)
    assert 2 <= len(np.unique(ids)) <= 4
    assert np.bincount(ids)[ids[0]] < 920


def test_no_sample_means_one_range() -> None:
    batch = pa.record_batch({"a": pa.array([1, 2])})
    bounds = RangeBounds.from_sample(batch.slice(0, 0), Ordering((SortKey(0),)), 4)
    assert bounds.ranges == 1
    assert bounds.partition(batch).tolist() == [0, 0]

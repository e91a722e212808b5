import pickle
from collections import Counter
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reshape.kernels.hashing import UnsupportedKeyType, hash_rows
from reshape.operators.base import HashedKeys, MiniPartitions
from reshape.operators.errors import KeyTypesDiffer, PortError, StateMismatch
from reshape.operators.set_ops import BUILD, PROBE, Distinct, DistinctSpec, SetProbe, SetProbeSpec

from .samples import (
    HASHES_LIKE_NULL,
    VALUES,
    batches_of,
    feed,
    hypothesis_rows,
    listed,
    over_the_wire,
    rows_held,
    rows_of,
    same_hash,
    table,
)

OPERATIONS: tuple[Literal["intersect", "subtract"], ...] = ("intersect", "subtract")
KINDS = {"a": "double", "b": "string"}


def expected(kind: str, left: pa.Table, right: pa.Table) -> Counter[tuple[Any, ...]]:
    here, there = set(listed(left)), set(listed(right))
    return Counter({"intersect": here & there, "subtract": here - there, "union": here | there}[kind])


def distinct(data: pa.Table, rows: int = 30, **options: Any) -> list[pa.RecordBatch]:
    operator = Distinct(DistinctSpec(data.schema), **options)
    out = feed(operator, 0, data, rows)
    assert list(operator.finish()) == []  # all has been said before
    return out


def probed(kind: Any, left: pa.Table, right: pa.Table, rows: int = 30, **options: Any) -> list[pa.RecordBatch]:
    operator = SetProbe(SetProbeSpec(left.schema, kind, right.schema), **options)
    assert feed(operator, BUILD, right, rows) == []
    out = feed(operator, PROBE, left, rows)
    assert list(operator.finish()) == []
    return out


@pytest.mark.parametrize("kinds", [("double", "string"), ("decimal", "date"), ("long", "boolean"), ("binary", "float")])
def test_equals_spark(spark: Any, kinds: tuple[str, str]) -> None:
    columns = dict(zip("ab", kinds, strict=True))
    left, right = table(columns, 60, seed=1), table(columns, 12, seed=2)
    a, b = spark.createDataFrame(left), spark.createDataFrame(right)
    both = pa.concat_tables([left, right])
    assert rows_of(distinct(both)) == rows_of(a.union(b).distinct().toArrow())
    assert rows_of(probed("intersect", left, right)) == rows_of(a.intersect(b).toArrow())
    assert rows_of(probed("subtract", left, right)) == rows_of(a.subtract(b).toArrow())


@pytest.mark.parametrize("kind", VALUES)
def test_every_type(kind: str) -> None:
    left, right = table({"a": kind}, 60, seed=3), table({"a": kind}, 3, seed=4)
    assert rows_of(distinct(left, rows=7)) == expected("union", left, left)
    for operation in OPERATIONS:
        assert rows_of(probed(operation, left, right, rows=7)) == expected(operation, left, right)


@pytest.mark.parametrize(("left_rows", "right_rows"), [(0, 0), (0, 5), (5, 0), (1, 1)])
def test_empty_sides_and_single_rows(left_rows: int, right_rows: int) -> None:
    left, right = table(KINDS, left_rows, seed=5), table(KINDS, right_rows, seed=6)
    assert rows_of(distinct(left)) == expected("union", left, left)
    for operation in OPERATIONS:
        assert rows_of(probed(operation, left, right)) == expected(operation, left, right)


@pytest.mark.parametrize("modulus", [1, 3])
def test_collisions_make_no_wrong_rows(modulus: int) -> None:
    left, right = table(KINDS, 80, seed=7), table(KINDS, 20, seed=8)
    bad = same_hash(modulus)
    assert rows_of(distinct(left, hash_function=bad)) == expected("union", left, left)
    for operation in OPERATIONS:
        assert rows_of(probed(operation, left, right, hash_function=bad)) == expected(operation, left, right)


def test_null_is_not_the_value_that_hashes_like_it() -> None:
    data = pa.table({"a": pa.array([HASHES_LIKE_NULL, None])})
    assert rows_of(distinct(data)) == expected("union", data, data)
    for operation in OPERATIONS:
        for right in (data.slice(0, 1), data.slice(1)):
            assert rows_of(probed(operation, data, right)) == expected(operation, data, right)


def test_rows_are_found_again_behind_two_that_share_a_hash() -> None:
    operator = Distinct(DistinctSpec(pa.schema([("a", pa.int64())])))

    def shown(*values: int | None) -> list[int | None]:
        batch = pa.record_batch({"a": pa.array(values, pa.int64())})
        return [value for found in operator.add(0, batch) for value in found.column(0).to_pylist()]

    assert shown(None) == [None]
    assert set(shown(HASHES_LIKE_NULL, 5)) == {HASHES_LIKE_NULL, 5}
    assert shown(9) == [9]
    assert shown(5, HASHES_LIKE_NULL, None, 9) == []
    list(operator.export_state(HashedKeys(frozenset(hash_rows([pa.array([9])]).tolist())), remove=True))
    assert shown(5, HASHES_LIKE_NULL, None) == []


def test_a_row_that_waits_for_the_end_is_shown_once() -> None:
    """A helper's part may be merged early, and its rows may come again, or from one that has shown them."""
    row = pa.record_batch({"a": pa.array([1])})
    spec = DistinctSpec(row.schema)
    for shown_elsewhere in (False, True):
        owner, helper, other = Distinct(spec), Distinct(spec, scattered=True), Distinct(spec)
        assert list(helper.add(0, row)) == []
        owner.merge_state(over_the_wire(helper.export_scattered()))
        assert list(owner.add(0, row)) == []
        if shown_elsewhere:
            assert len(list(other.add(0, row))) == 1
            owner.merge_state(over_the_wire(other.export_state(None, remove=True)))
        owner.end_port(0)
        assert len(list(owner.finish())) == (0 if shown_elsewhere else 1)


def test_a_row_that_comes_back_without_its_state_is_not_shown_again() -> None:
    """Rows 1 and 3 are handed over, the one shown and the other not; then more of each row come to the owner."""
    one, two, three = (pa.record_batch({"a": pa.array([value])}) for value in (1, 2, 3))
    spec = DistinctSpec(one.schema)
    owner, waits, helper = Distinct(spec), Distinct(spec, scattered=True), Distinct(spec, scattered=True)
    assert list(owner.add(0, one)) == [one]
    assert list(waits.add(0, three)) == []
    owner.merge_state(over_the_wire(waits.export_scattered()))
    moved = HashedKeys(frozenset(hash_rows([pa.array([1, 3])]).tolist()))
    helper.merge_state(over_the_wire(owner.export_state(moved, remove=True)))
    assert (rows_held(owner), rows_held(helper)) == (0, 2)
    assert [batch for row in (one, two, three, one, three) for batch in owner.add(0, row)] == [two, three]
    owner.merge_state(over_the_wire(helper.export_scattered()))
    owner.end_port(0)
    assert list(owner.finish()) == []


def test_rows_appear_when_first_seen_in_bounded_batches() -> None:
    operator = Distinct(DistinctSpec(pa.schema([("a", pa.int64())])), output_rows=4)
    first = list(operator.add(0, pa.record_batch({"a": pa.array([1, 2, 1, 3, 4, 5, 2])})))
    assert [batch.column(0).to_pylist() for batch in first] == [[1, 2, 3, 4], [5]]
    assert [batch.to_pylist() for batch in operator.add(0, pa.record_batch({"a": pa.array([5, 6])}))] == [[{"a": 6}]]


def test_rows_are_shown_as_spark_shows_them() -> None:
    (batch,) = distinct(pa.table({"a": pa.array([-0.0, 0.0])}))
    assert str(batch.column(0)[0].as_py()) == "0.0"


def test_many_batches() -> None:
    """Blocks are merged as the set grows; nothing is lost or said twice."""
    rng = np.random.default_rng(0)
    data = pa.table(
        {"a": pa.array(rng.integers(0, 3000, 20_000)), "b": pa.array(rng.integers(0, 2, 20_000).astype(str))}
    )
    assert rows_of(distinct(data, rows=97)) == expected("union", data, data)


@settings(max_examples=60)
@example(
    data=pa.table({"a": pa.nulls(8, pa.float64()), "b": [*[None] * 5, "", "", "a"]}), shares=[0, 1], rows=3, modulus=3
)
@given(
    data=hypothesis_rows(KINDS),
    shares=st.lists(st.integers(0, 2), min_size=1, max_size=40),
    rows=st.integers(1, 8),
    modulus=st.integers(1, 50),
)
def test_distinct_split_by_records(data: pa.Table, shares: list[int], rows: int, modulus: int) -> None:
    spec = DistinctSpec(data.schema)
    workers = [Distinct(spec, scattered=i > 0, hash_function=same_hash(modulus)) for i in range(3)]
    out: list[pa.RecordBatch] = []
    for i, batch in enumerate(batches_of(data, rows)):
        out += workers[shares[i % len(shares)]].add(0, batch)
    owner, *helpers = workers
    owner.end_port(0)
    for helper in helpers:
        owner.merge_state(over_the_wire(helper.export_scattered()))
        assert rows_held(helper) == 0
    assert rows_of([*out, *owner.finish()]) == expected("union", data, data)


@settings(max_examples=40)
@given(data=hypothesis_rows(KINDS), cut=st.integers(0, 40), modulus=st.integers(1, 4))
def test_distinct_split_by_keys(data: pa.Table, cut: int, modulus: int) -> None:
    spec = DistinctSpec(data.schema)
    keys = MiniPartitions(frozenset({0}), 1, modulus)
    owner, helper = Distinct(spec), Distinct(spec)
    out = [found for batch in batches_of(data.slice(0, cut), 5) for found in owner.add(0, batch)]
    before = rows_held(owner)
    helper.merge_state(over_the_wire(owner.export_state(keys, remove=True)))
    assert rows_held(owner) + rows_held(helper) == before
    for batch in batches_of(data.slice(cut), 5):
        mine = keys.holds(hash_rows(batch.columns))
        out += helper.add(0, batch.filter(pa.array(mine)))
        out += owner.add(0, batch.filter(pa.array(~mine)))
    for worker in (owner, helper):
        worker.end_port(0)
        out += worker.finish()
    assert rows_of(out) == expected("union", data, data)


@settings(max_examples=60)
@given(
    left=hypothesis_rows(KINDS),
    right=hypothesis_rows(KINDS, largest=10),
    kind=st.sampled_from(OPERATIONS),
    build_shares=st.lists(st.integers(0, 2), min_size=1, max_size=10),
    shares=st.lists(st.integers(0, 2), min_size=1, max_size=40),
)
def test_probe_split_by_records(
    left: pa.Table, right: pa.Table, kind: Any, build_shares: list[int], shares: list[int]
) -> None:
    """The build side is scattered and merged, then replicated; the probe side goes to any of the three workers."""
    spec = SetProbeSpec(left.schema, kind)
    workers = [SetProbe(spec, scattered=i > 0) for i in range(3)]
    owner, *helpers = workers
    for i, batch in enumerate(batches_of(right, 2)):
        workers[build_shares[i % len(build_shares)]].add(BUILD, batch)
    for helper in helpers:
        owner.merge_state(over_the_wire(helper.export_scattered()))
    for worker in workers:
        worker.end_port(BUILD)
    for helper in helpers:
        helper.merge_state(over_the_wire(owner.export_state(None, remove=False)))
    out: list[pa.RecordBatch] = []
    for i, batch in enumerate(batches_of(left, 4)):
        out += workers[shares[i % len(shares)]].add(PROBE, batch)
        if i == 2:
            helpers[0].merge_state(over_the_wire(owner.export_state(None, remove=False)))  # once more
    for worker in workers:
        worker.end_port(PROBE)
    for helper in helpers:
        sent = over_the_wire(helper.export_scattered())
        assert not any(batch.column("__build").true_count for batch in sent)
        owner.merge_state(sent)
    out += owner.finish()
    assert rows_of(out) == expected(kind, left, right)


@settings(max_examples=40)
@given(
    left=hypothesis_rows(KINDS),
    right=hypothesis_rows(KINDS, largest=10),
    kind=st.sampled_from(OPERATIONS),
    modulus=st.integers(1, 4),
)
def test_probe_split_by_keys(left: pa.Table, right: pa.Table, kind: Any, modulus: int) -> None:
    spec = SetProbeSpec(left.schema, kind)
    keys = MiniPartitions(frozenset({0}), 1, modulus)
    owner, helper = SetProbe(spec), SetProbe(spec)
    feed(owner, BUILD, right)
    helper.end_port(BUILD)
    half = left.num_rows // 2
    out = [found for batch in batches_of(left.slice(0, half), 5) for found in owner.add(PROBE, batch)]
    helper.merge_state(over_the_wire(owner.export_state(keys, remove=True)))
    for batch in batches_of(left.slice(half), 5):
        mine = keys.holds(hash_rows(batch.columns))
        out += helper.add(PROBE, batch.filter(pa.array(mine)))
        out += owner.add(PROBE, batch.filter(pa.array(~mine)))
    for worker in (owner, helper):
        worker.end_port(PROBE)
        out += worker.finish()
    assert rows_of(out) == expected(kind, left, right)


def test_named_rows_and_no_others_are_moved() -> None:
    data = pa.table({"a": pa.array([1, 2, 3, 2])})
    operator = Distinct(DistinctSpec(data.schema))
    feed(operator, 0, data, rows=2)
    keys = HashedKeys(frozenset(hash_rows([pa.array([2, 9])]).tolist()))
    (part,) = operator.export_state(keys, remove=True)
    assert part.to_pylist() == [{"__build": False, "__flag": True, "a": 2}]
    assert rows_held(operator) == 2
    assert list(operator.export_state(keys, remove=True)) == []


def test_mutability_is_that_of_table_1() -> None:
    schema = pa.schema([("a", pa.int64())])
    assert Distinct(DistinctSpec(schema)).spec.ports[0].mutable
    for kind in OPERATIONS:
        operator = SetProbe(SetProbeSpec(schema, kind))
        assert operator.spec.ports[BUILD].mutable
        assert not operator.spec.ports[PROBE].mutable


def test_preview_and_size() -> None:
    operator = Distinct(DistinctSpec(pa.schema([("a", pa.int64())])))
    assert operator.preview(2) is None
    list(operator.add(0, pa.record_batch({"a": pa.array([1, 2, 3])})))
    shown = operator.preview(2)
    assert shown is not None
    assert shown.num_rows == 2
    assert rows_held(operator) == 3
    assert operator.state_bytes > 24


def test_errors_name_what_is_wrong() -> None:
    schema = pa.schema([("a", pa.int64())])
    maps = pa.schema([("m", pa.map_(pa.string(), pa.int8()))])
    with pytest.raises(UnsupportedKeyType, match="distinct: column 'm' of type map"):
        Distinct(DistinctSpec(maps))
    with pytest.raises(KeyTypesDiffer, match="intersect: key 'a' is int64 but 'a' is string") as differ:
        SetProbeSpec(schema, "intersect", pa.schema([("a", pa.string())]))
    operator = SetProbe(SetProbeSpec(schema, "subtract"))
    with pytest.raises(PortError, match="before the build port has ended"):
        operator.add(PROBE, pa.record_batch({"a": pa.array([1])}))
    with pytest.raises(StateMismatch, match="cannot merge state"):
        operator.merge_state([pa.record_batch({"a": pa.array([1])})])
    assert str(pickle.loads(pickle.dumps(differ.value))) == str(differ.value)

import decimal
import math
import pickle
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reshape.kernels.hashing import UnsupportedKeyType, hash_rows
from reshape.operators import group_by as group_by_module
from reshape.operators.aggregates.counts import Count, CountAll, CountDistinct
from reshape.operators.aggregates.description import Aggregate, OfColumn
from reshape.operators.aggregates.extremes import First, Max, Min
from reshape.operators.aggregates.lists import CollectList, Median, Percentile
from reshape.operators.aggregates.moments import StddevPop, StddevSamp, VarPop, VarSamp
from reshape.operators.aggregates.sums import Mean, Sum
from reshape.operators.aggregates.user_defined import UserDefined
from reshape.operators.base import HashedKeys, MiniPartitions
from reshape.operators.errors import OutOfRange, StateMismatch, UnsupportedAggregate, UserAggregateFailed
from reshape.operators.group_by import GroupBy, GroupBySpec

from .samples import (
    HASHES_LIKE_NULL,
    NAN,
    VALUES,
    batches_of,
    feed,
    hypothesis_rows,
    listed,
    over_the_wire,
    rows_held,
    table,
)

QUARTILES = (0.0, 0.25, 0.5, 0.9, 1.0)
BIG = 10**12


def numeric(column: int) -> tuple[Aggregate, ...]:
    """Every aggregate of numbers."""
    return (
        CountAll("rows"),
        Count("count", column),
        Sum("sum", column),
        Min("min", column),
        Max("max", column),
        Mean("mean", column),
        VarSamp("var_samp", column),
        VarPop("var_pop", column),
        StddevSamp("stddev_samp", column),
        StddevPop("stddev_pop", column),
        CountDistinct("distinct", (column,)),
        Median("median", column),
        Percentile("percentile", column, (0.3,)),
        Percentile("quartiles", column, QUARTILES, as_list=True),
        CollectList("list", column),
    )


def of_anything(column: int) -> tuple[Aggregate, ...]:
    """Every aggregate of values that need not be numbers."""
    return (
        Count("count", column),
        Min("min", column),
        Max("max", column),
        CountDistinct("distinct", (column,)),
        CollectList("list", column),
    )


def in_spark(aggregate: Aggregate, schema: pa.Schema) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    name = aggregate.name
    if isinstance(aggregate, CountAll):
        return F.count("*").alias(name)
    if isinstance(aggregate, CountDistinct):
        return F.count_distinct(*[schema.names[i] for i in aggregate.columns]).alias(name)
    assert isinstance(aggregate, OfColumn)
    column = schema.names[aggregate.column]
    if isinstance(aggregate, Percentile):
        shares = list(aggregate.percentages) if aggregate.as_list else aggregate.percentages[0]
        return F.percentile(column, shares).alias(name)
    function = {
        Count: F.count,
        Sum: F.sum,
        Min: F.min,
        Max: F.max,
        Mean: F.avg,
        VarSamp: F.var_samp,
        VarPop: F.var_pop,
        StddevSamp: F.stddev_samp,
        StddevPop: F.stddev_pop,
        Median: F.median,
        CollectList: F.collect_list,
        First: F.first,
    }[type(aggregate)]
    return function(column).alias(name)


class Result:
    """Rows with different keys in front; floats are equal up to the rounding of sums in another order."""

    def __init__(self, rows: Iterable[tuple[Any, ...]]) -> None:
        self.rows = sorted(rows, key=repr)

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, Result)
        return len(self.rows) == len(other.rows) and all(map(close, self.rows, other.rows))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.rows))


def close(a: Any, b: Any) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(close, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-30)
    return bool(a == b)


def counted(data: pa.Table | Iterable[pa.RecordBatch], lists: Iterable[int] = ()) -> Result:
    """Rows, the values of collected lists in one order."""
    return Result(
        tuple(tuple(sorted(value, key=repr)) if i in lists else value for i, value in enumerate(row))
        for row in listed(data)
    )


def list_columns(spec: GroupBySpec) -> list[int]:
    return [len(spec.keys) + i for i, aggregate in enumerate(spec.aggregates) if isinstance(aggregate, CollectList)]


def grouped(spec: GroupBySpec, data: pa.Table, rows: int = 100) -> Result:
    operator = GroupBy(spec)
    assert feed(operator, 0, data, rows) == []
    out = list(operator.finish())
    assert all(batch.schema.equals(operator.output_schema) for batch in out)
    return counted(out, list_columns(spec))


def from_spark(spark: Any, spec: GroupBySpec, data: pa.Table) -> Any:
    keys = [data.column_names[key] for key in spec.keys]
    return spark.createDataFrame(data).groupBy(*keys).agg(*[in_spark(a, data.schema) for a in spec.aggregates])


def with_amounts(kinds: dict[str, str], kind: pa.DataType, rows: int = 400, seed: int = 1) -> pa.Table:
    """Numbers that repeat, that are null at times, and whose sums fit."""
    rng = np.random.default_rng(seed)
    values: list[Any] = rng.integers(-100, 100, rows).tolist()
    if pa.types.is_floating(kind):
        values = [[NAN, -0.0, 0.0, 1.5][v] if 0 <= v < 4 else v / 8 for v in values]
    elif pa.types.is_decimal(kind):
        values = [decimal.Decimal(v * 12345).scaleb(-kind.scale) for v in values]
    elif kind == pa.int64():
        values = [v * BIG for v in values]
    values = [None if absent else v for v, absent in zip(values, rng.random(rows) < 0.2, strict=True)]
    return table(kinds, rows, seed).append_column("v", pa.array(values, type=kind))


@pytest.mark.parametrize(
    "kind",
    [
        pa.int64(),
        pa.int32(),
        pa.int8(),
        pa.float64(),
        pa.float32(),
        pa.decimal128(9, 2),
        pa.decimal128(30, 10),
        pa.decimal128(38, 18),
    ],
    ids=str,
)
def test_numbers_equal_spark(spark: Any, kind: pa.DataType) -> None:
    data = with_amounts({"k": "string", "d": "double"}, kind)
    spec = GroupBySpec(data.schema, (0, 1), numeric(2))
    wanted = from_spark(spark, spec, data).toArrow()
    assert [field.type for field in spec.output_schema] == wanted.schema.types
    assert grouped(spec, data) == counted(wanted, list_columns(spec))


@pytest.mark.parametrize(
    "kind", ["string", "binary", "boolean", "date", "timestamp", "double", "float", "decimal", "long"]
)
def test_values_and_keys_of_all_types_equal_spark(spark: Any, kind: str) -> None:
    data = table({"k": kind, "v": kind}, 200, seed=3)
    spec = GroupBySpec(data.schema, (0,), of_anything(1))
    wanted = from_spark(spark, spec, data).toArrow()
    assert [field.type for field in spec.output_schema] == wanted.schema.types
    assert grouped(spec, data) == counted(wanted, list_columns(spec))


def test_global_aggregates_and_several_columns_equal_spark(spark: Any) -> None:
    data = with_amounts({"a": "string", "b": "double"}, pa.int32())
    aggregates = (*numeric(2), CountDistinct("pairs", (0, 1)), Max("a", 0), Min("b", 1))
    for part, emit in ((data, False), (data.slice(0, 0), True)):
        spec = GroupBySpec(data.schema, (), aggregates, emit_when_empty=emit)
        assert grouped(spec, part) == counted(from_spark(spark, spec, part).toArrow(), list_columns(spec))
    by_key = GroupBySpec(data.schema, (0,), aggregates)
    assert grouped(by_key, data) == counted(from_spark(spark, by_key, data).toArrow(), list_columns(by_key))


def test_infinities_equal_spark(spark: Any) -> None:
    data = pa.table(
        {
            "k": pa.array([1, 1, 2, 2, 3, 3, 3, 4]),
            "v": pa.array([np.inf, 1.0, np.inf, -np.inf, NAN, np.inf, 1.0, np.inf]),
        }
    )
    spec = GroupBySpec(data.schema, (0,), numeric(1))
    assert grouped(spec, data) == counted(from_spark(spark, spec, data).toArrow(), list_columns(spec))


def test_sums_that_do_not_fit_fail_in_spark_too(spark: Any) -> None:
    longs = pa.table({"k": pa.array([1, 1]), "v": pa.array([2**63 - 1, 1])})
    wide = decimal.Decimal("9" * 38)
    decimals = pa.table({"k": pa.array([1, 1]), "v": pa.array([wide, wide], pa.decimal128(38, 0))})
    for data, aggregate in ((longs, Sum("s", 1)), (decimals, Sum("s", 1)), (decimals, Mean("m", 1))):
        spec = GroupBySpec(data.schema, (0,), (aggregate,))
        with pytest.raises(Exception, match=r"OVERFLOW|OUT_OF_RANGE|overflow"):
            from_spark(spark, spec, data).collect()
        with pytest.raises(OutOfRange, match=r"group-by: .* of column 'v' does not fit") as caught:
            grouped(spec, data)
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_sums_that_overflow_only_on_the_way_do_not_fail() -> None:
    """Rows come in no order, so whether a sum fits must not depend on one."""
    data = pa.table({"k": pa.array([1, 1, 1]), "v": pa.array([2**63 - 1, 2**63 - 1, -(2**63 - 1)])})
    spec = GroupBySpec(data.schema, (0,), (Sum("s", 1),))
    assert grouped(spec, data, rows=1) == Result([(1, 2**63 - 1)])
    least = pa.table({"k": pa.array([1]), "v": pa.array([-(2**63)])})
    assert grouped(GroupBySpec(least.schema, (0,), (Sum("s", 1),)), least) == Result([(1, -(2**63))])


@pytest.mark.parametrize("rows", [1, 100])
@pytest.mark.parametrize("most", [2**31, 2**53 + 1, 2**63 - 1])
def test_sums_of_longs_are_exact_whether_they_fit_on_the_way_or_not(rows: int, most: int) -> None:
    """In one update, over many of them, and when the parts of two workers are merged."""
    values = [most, most - 1, -most, most, -most, -most + 1, 5]
    data = pa.table({"k": pa.array([1] * 7 + [2]), "v": pa.array([*values, most])})
    spec = GroupBySpec(data.schema, (0,), (Sum("s", 1),))
    assert grouped(spec, data, rows) == Result([(1, sum(values)), (2, most)])
    owner, helper = GroupBy(spec), GroupBy(spec, scattered=True)
    feed(owner, 0, data.slice(0, 2))
    feed(helper, 0, data.slice(2))
    owner.merge_state(over_the_wire(helper.export_scattered()))
    assert counted(owner.finish()) == Result([(1, sum(values)), (2, most)])


def test_a_sum_that_does_not_fit_once_parts_are_merged() -> None:
    data = pa.table({"k": pa.array([1, 1]), "v": pa.array([-(2**63), -1])})
    spec = GroupBySpec(data.schema, (0,), (Sum("s", 1),))
    owner, helper = GroupBy(spec), GroupBy(spec, scattered=True)
    feed(owner, 0, data.slice(0, 1))
    feed(helper, 0, data.slice(1))
    owner.merge_state(over_the_wire(helper.export_scattered()))
    with pytest.raises(OutOfRange, match="bigint"):
        list(owner.finish())


def test_many_groups_merged_many_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys with nulls and one that hashes like null; some leave on the way and come back."""
    monkeypatch.setattr(group_by_module, "_BLOCK_ROWS", 500)
    monkeypatch.setattr(group_by_module, "_POOL_BYTES", 1)
    rng = np.random.default_rng(4)
    keys = [[None, HASHES_LIKE_NULL, -5][v] if v < 3 else v for v in rng.integers(0, 3_000, 20_000).tolist()]
    data = pa.table({"k": pa.array(keys, pa.int64()), "unread": pa.array(["x"] * len(keys))})
    operator = GroupBy(GroupBySpec(data.schema, (0,), (CountAll("n"), CountDistinct("d", (0,)))))
    for number, batch in enumerate(batches_of(data, 100)):
        operator.add(0, batch)
        if number % 20 == 7:
            operator.merge_state(
                over_the_wire(operator.export_state(MiniPartitions(frozenset({0}), 1, 3), remove=True))
            )
    operator.end_port(0)
    wanted = [(key, count, int(key is not None)) for key, count in Counter(keys).items()]
    assert counted(operator.finish()) == Result(wanted)


@pytest.mark.parametrize("rows", [2, 3, 1000])
def test_wide_sums_are_exact(rows: int) -> None:
    rng = np.random.default_rng(rows)
    values = [int(a) * int(b) for a, b in zip(*rng.integers(-(2**58), 2**58, (2, rows)), strict=True)]
    kind = pa.decimal128(38, 0)
    data = pa.table({"k": pa.array([i % 2 for i in range(rows)]), "v": pa.array(map(decimal.Decimal, values), kind)})
    found = grouped(GroupBySpec(data.schema, (0,), (Sum("s", 1),)), data, rows=7).rows
    assert {key: int(total) for key, total in found} == {0: sum(values[::2]), 1: sum(values[1::2])}


def test_keys_are_shown_as_spark_shows_them() -> None:
    struct = pa.struct([("f", pa.float32())])
    data = pa.table(
        {
            "d": pa.array([-0.0, 0.0, NAN, NAN, None]),
            "s": pa.array([{"f": -0.0}, {"f": 0.0}, {"f": NAN}, {"f": NAN}, None], struct),
        }
    )
    (out,) = _run(GroupBySpec(data.schema, (0, 1), (CountAll("n"),)), data)
    assert out.column("n").to_pylist() == [2, 2, 1]
    assert str(out.column("d")[0].as_py()) == "0.0"
    assert str(out.column("s")[0].as_py()["f"]) == "0.0"


def _run(spec: GroupBySpec, data: pa.Table, **options: Any) -> list[pa.RecordBatch]:
    operator = GroupBy(spec, **options)
    feed(operator, 0, data)
    return list(operator.finish())


@pytest.mark.parametrize("block", [1, 100])
def test_first_keeps_what_came_first(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_by_module, "_BLOCK_ROWS", block)
    monkeypatch.setattr(group_by_module, "_POOL_BYTES", 1)
    data = pa.table({"k": pa.array([3, 1, 1, 2, 1, 2]), "v": pa.array([None, None, "b", "c", "d", None])})
    spec = GroupBySpec(data.schema, (0,), (First("any", 1), First("some", 1, ignore_nulls=True)))
    for rows in (1, 2, 5):
        assert grouped(spec, data, rows) == Result([(1, None, "b"), (2, "c", "c"), (3, None, None)])
    nothing = pa.table({"k": pa.array([1]), "v": pa.array([None], pa.string())})
    assert grouped(spec, nothing) == Result([(1, None, None)])


def test_no_rows_no_groups() -> None:
    data = table({"k": "string", "v": "int"}, 0, seed=1)
    assert _run(GroupBySpec(data.schema, (0,), numeric(1)), data) == []
    assert _run(GroupBySpec(data.schema, (0,), numeric(1), emit_when_empty=True), data) == []
    assert _run(GroupBySpec(data.schema, (), numeric(1)), data) == []
    (one,) = _run(GroupBySpec(data.schema, (), numeric(1), emit_when_empty=True), data)
    assert one.num_rows == 1


def test_output_is_bounded() -> None:
    data = pa.table({"k": pa.array(range(100))})
    out = _run(GroupBySpec(data.schema, (0,), (CountAll("n"),)), data, output_rows=30)
    assert [batch.num_rows for batch in out] == [30, 30, 30, 10]


def test_keys_without_aggregates() -> None:
    data = table({"k": "string"}, 50, seed=2)
    assert grouped(GroupBySpec(data.schema, (0,), ()), data) == Result(set(listed(data)))


class Concatenation:
    """Joins strings in the order of their bytes; a state that is a list, of a size that nobody bounds."""

    state_type = pa.list_(pa.string())
    output_type = pa.string()

    def init(self) -> list[str]:
        return []

    def update(self, state: list[str], rows: pa.RecordBatch) -> list[str]:
        return state + [word for word in rows.column("v").to_pylist() if word is not None]

    def merge(self, state: list[str], other: list[str]) -> list[str]:
        return state + other

    def finish(self, state: list[str]) -> str | None:
        return ",".join(sorted(state)) if state else None


class Failing(Concatenation):
    def __init__(self, method: str) -> None:
        setattr(self, method, self._fail)

    def _fail(self, *arguments: object) -> Any:
        raise KeyError("what a user wrote")


MIXED = (
    *of_anything(1),
    Sum("sum", 2),
    Mean("mean", 2),
    VarPop("var", 2),
    Median("median", 2),
    UserDefined("words", (1,), Concatenation()),
)
KINDS = {"k": "double", "v": "string", "n": "byte"}


def mixed_spec(data: pa.Table) -> GroupBySpec:
    return GroupBySpec(data.schema, (0,), MIXED)


@settings(max_examples=50)
@given(
    data=hypothesis_rows(KINDS),
    shares=st.lists(st.integers(0, 2), min_size=1, max_size=40),
    rows=st.integers(1, 9),
    block=st.integers(1, 20),
)
def test_rows_split_over_owner_and_helpers(data: pa.Table, shares: list[int], rows: int, block: int) -> None:
    """Split by records, in batches of any size, with blocks and pools of any size."""
    spec = mixed_spec(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(group_by_module, "_BLOCK_ROWS", block)
        patch.setattr(group_by_module, "_POOL_BYTES", block * 20)
        workers = [GroupBy(spec, scattered=i > 0) for i in range(3)]
        for i, batch in enumerate(batches_of(data, rows)):
            workers[shares[i % len(shares)]].add(0, batch)
            if i % 3 == 0:
                workers[i % 2].preview(3)
        owner, *helpers = workers
        owner.end_port(0)
        for helper in helpers:
            owner.merge_state(over_the_wire(helper.export_scattered()))
            assert rows_held(helper) == 0
            owner.merge_state(over_the_wire(helper.export_scattered()))  # nothing more to give
        assert counted(owner.finish(), list_columns(spec)) == grouped(spec, data, rows=1000)


@settings(max_examples=40)
@given(data=hypothesis_rows(KINDS), cut=st.integers(0, 40), modulus=st.integers(1, 4))
def test_whole_keys_moved(data: pa.Table, cut: int, modulus: int) -> None:
    """Split by keys: exactly the named keys move, with their values so far, and go on at the helper."""
    spec = mixed_spec(data)
    keys = MiniPartitions(frozenset({0}), 1, modulus)
    owner, helper = GroupBy(spec), GroupBy(spec)
    for batch in batches_of(data.slice(0, cut), 5):
        owner.add(0, batch)
    helper.merge_state(over_the_wire(owner.export_state(keys, remove=True)))
    for batch in batches_of(data.slice(cut), 5):
        mine = keys.holds(hash_rows([batch.column(0)]))
        helper.add(0, batch.filter(pa.array(mine)))
        owner.add(0, batch.filter(pa.array(~mine)))
    out = []
    for worker, here in ((owner, False), (helper, True)):
        worker.end_port(0)
        part = list(worker.finish())
        assert all((keys.holds(hash_rows([batch.column(0)])) == here).all() for batch in part)
        out += part
    assert counted(out, list_columns(spec)) == grouped(spec, data)


@settings(max_examples=40)
@given(data=hypothesis_rows(KINDS), rows=st.integers(1, 12), combined=st.lists(st.booleans(), min_size=1))
def test_rows_combined_at_the_router(data: pa.Table, rows: int, combined: list[bool]) -> None:
    aggregates = tuple(a for a in numeric(2) if not isinstance(a, CollectList | Median | Percentile | CountDistinct))
    spec = GroupBySpec(data.schema, (0,), aggregates)
    combiner, operator = spec.combiner(), GroupBy(spec)
    assert combiner is not None
    for i, batch in enumerate(batches_of(data, rows)):
        if combined[i % len(combined)]:
            partial = combiner.combine(batch)
            assert set(hash_rows([partial.column(i) for i in combiner.keys])) == set(hash_rows([batch.column(0)]))
            (batch,) = over_the_wire([partial])  # noqa: PLW2901
        operator.add(0, batch)
    operator.end_port(0)
    assert counted(operator.finish()) == grouped(spec, data)


def test_partial_rows_of_the_one_group_that_come_in_one_batch() -> None:
    """Rows that waited in a queue are one batch when their worker gets to them."""
    spec = GroupBySpec(pa.schema([("v", pa.int64())]), (), (CountAll("rows"), Sum("sum", 0)))
    combiner = spec.combiner()
    assert combiner is not None
    parts = [combiner.combine(pa.record_batch({"v": values})) for values in ([1, 2], [3], [4, 5, 6])]
    operator = GroupBy(spec)
    feed(operator, 0, pa.Table.from_batches([pa.concat_batches(parts)]), 100)
    (result,) = operator.finish()
    assert result.to_pylist() == [{"rows": 6, "sum": 21}]


def test_holistic_aggregates_are_not_worth_combining() -> None:
    data = table(KINDS, 1, seed=1)
    assert mixed_spec(data).combiner() is None


def test_state_stays_when_it_is_copied() -> None:
    data = table(KINDS, 60, seed=5)
    spec = mixed_spec(data)
    operator, restored = GroupBy(spec), GroupBy(spec)
    feed(operator, 0, data)
    restored.merge_state(over_the_wire(operator.export_state(None, remove=False)))
    restored.end_port(0)
    lists = list_columns(spec)
    assert counted(operator.finish(), lists) == counted(restored.finish(), lists) == grouped(spec, data)


def test_groups_are_found_again_behind_two_that_share_a_hash() -> None:
    schema = pa.schema([("k", pa.int64())])
    operator = GroupBy(GroupBySpec(schema, (0,), (CountAll("n"),)))
    kept = [None, HASHES_LIKE_NULL, 5]
    for key in [*kept, 9]:
        operator.add(0, pa.record_batch([pa.array([key], pa.int64())], schema=schema))
        operator.preview(1)  # what has come is merged
    list(operator.export_state(HashedKeys(frozenset(hash_rows([pa.array([9])]).tolist())), remove=True))
    operator.add(0, pa.record_batch([pa.array(kept, pa.int64())], schema=schema))
    operator.end_port(0)
    assert counted(operator.finish()) == Result([(key, 2) for key in kept])


def test_named_key_and_no_other_is_moved() -> None:
    data = pa.table({"k": pa.array([1, 2, 3, 2])})
    operator = GroupBy(GroupBySpec(data.schema, (0,), (CountAll("n"),)))
    feed(operator, 0, data)
    keys = HashedKeys(frozenset(hash_rows([pa.array([2, 77])]).tolist()))
    (part,) = operator.export_state(keys, remove=True)
    assert part.to_pylist() == [{"__key0": 2, "__aggregate0_0": 2}]
    assert rows_held(operator) == 2
    assert list(operator.export_state(keys, remove=True)) == []


def test_preview_shows_running_values() -> None:
    data = pa.table({"k": pa.array(["a", "b", "a"])})
    operator = GroupBy(GroupBySpec(data.schema, (0,), (CountAll("n"),)))
    assert operator.preview(10) is None
    for batch in data.to_batches():
        operator.add(0, batch)
    shown = operator.preview(1)
    assert shown is not None
    assert shown.to_pylist() == [{"k": "a", "n": 2}]
    assert operator.state_bytes > 0
    assert operator.spec.ports[0].mutable


def test_dictionary_encoded_input() -> None:
    words = pa.array(["a", "b", None, "a"])
    data = pa.table({"k": words.dictionary_encode(), "v": words.dictionary_encode()})
    spec = GroupBySpec(data.schema, (0,), (Max("m", 1), CountDistinct("d", (1,))))
    assert grouped(spec, data, rows=2) == Result([("a", "a", 1), ("b", "b", 1), (None, None, 0)])


@pytest.mark.parametrize("method", ["init", "update", "merge", "finish"])
def test_a_failing_user_aggregate_is_named(method: str) -> None:
    data = pa.table({"k": pa.array([1, 1]), "v": pa.array(["a", "b"])})
    spec = GroupBySpec(data.schema, (0,), (UserDefined("mine", (1,), Failing(method)),))

    def work() -> None:
        operator, helper = GroupBy(spec), GroupBy(spec)
        feed(operator, 0, data)
        feed(helper, 0, data)
        operator.merge_state(helper.export_scattered())
        list(operator.finish())

    wanted = rf"{method}\(\) of user-defined aggregate 'mine'.*KeyError"
    with pytest.raises(UserAggregateFailed, match=wanted) as caught:
        work()
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_unsupported_types_are_named() -> None:
    schema = pa.schema([("k", pa.map_(pa.string(), pa.int64())), ("s", pa.string()), ("l", pa.list_(pa.int8()))])
    with pytest.raises(UnsupportedKeyType, match="group-by: column 'k' of type map"):
        GroupBy(GroupBySpec(schema, (0,), ()))
    for aggregate in (Sum("x", 1), Mean("x", 1), VarPop("x", 1), Median("x", 1), Min("x", 2)):
        with pytest.raises(UnsupportedAggregate, match=r"group-by: .* of column '[sl]' of type") as caught:
            GroupBy(GroupBySpec(schema, (1,), (aggregate,)))
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    with pytest.raises(UnsupportedKeyType, match="group-by: distinct"):
        GroupBy(GroupBySpec(schema, (1,), (CountDistinct("x", (2,)),)))


def test_state_of_another_operator_is_refused() -> None:
    data = pa.table({"k": pa.array([1])})
    operator = GroupBy(GroupBySpec(data.schema, (0,), (CountAll("n"),)))
    with pytest.raises(StateMismatch, match="group-by: cannot merge state"):
        operator.merge_state(data.to_batches())


@pytest.mark.parametrize("kind", VALUES)
def test_every_key_type(kind: str) -> None:
    data = table({"k": kind}, 80, seed=6)
    spec = GroupBySpec(data.schema, (0,), (CountAll("n"),))
    assert grouped(spec, data, rows=13) == Result((*row, n) for row, n in Counter(listed(data)).items())

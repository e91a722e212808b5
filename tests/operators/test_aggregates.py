"""What aggregates give, in parts that are merged in any order."""

import math
import pickle
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reshape.kernels.ordering import SortKey
from reshape.kernels.xxhash import xxhash64
from reshape.operators.aggregates.approx_counts import ApproxCountDistinct
from reshape.operators.aggregates.approx_percentiles import ApproxPercentile
from reshape.operators.aggregates.bits import BitAnd, BitOr, BitXor
from reshape.operators.aggregates.by_another import BestBy, MaxBy, MinBy
from reshape.operators.aggregates.counts import CountAll, CountRows
from reshape.operators.aggregates.description import Aggregate
from reshape.operators.aggregates.distinct import Distinct
from reshape.operators.aggregates.extremes import First, Last, Max, Min
from reshape.operators.aggregates.filtered import Filtered
from reshape.operators.aggregates.lists import CollectList, CollectSet, Percentile, PercentileDisc
from reshape.operators.aggregates.mode import Mode, Tie
from reshape.operators.aggregates.moments import Kurtosis, Skewness, VarSamp
from reshape.operators.aggregates.pairs import Corr, CovarSamp, RegrIntercept, RegrR2, RegrSlope
from reshape.operators.aggregates.sums import Mean, Sum
from reshape.operators.aggregates.texts import ListAgg
from reshape.operators.errors import NegativeFrequency, UnsupportedAggregate
from reshape.operators.group_by import GroupBy, GroupBySpec

from .samples import NAN, batches_of, feed, hypothesis_rows, listed, over_the_wire, table

KINDS = {"k": "boolean", "s": "string", "d": "double", "n": "byte", "b": "boolean", "c": "decimal"}
# Of columns s, d, n, b and c. Where several rows are right, the value is the same in all of them.
ANY_ORDER: tuple[Aggregate, ...] = (
    MaxBy("max_by", (1, 1)),
    MinBy("min_by", (2, 2)),
    BestBy("best", (5, 5), 3, largest=True),
    CollectSet("set", 2),
    CollectSet("set with null", 3, ignore_nulls=False),
    CollectList("list with nulls", 4, ignore_nulls=False),
    ApproxCountDistinct("about", 1),
    ApproxCountDistinct("about decimals", 5, 0.2),
    ApproxPercentile("near", 2, (0.1, 0.5), as_list=True, accuracy=100),
    ApproxPercentile("near decimal", 5, (0.5,)),
    Percentile("weighed", 2, (0.5,), frequency=6),
    PercentileDisc("disc", 3, (0.2, 1.0), as_list=True, reverse=True),
    Mode("smallest mode", 1, Tie.SMALLEST),
    Mode("largest mode", 3, Tie.LARGEST),
    BitAnd("and", 3),
    BitOr("or", 3),
    BitXor("xor", 3),
    Max("any true", 4),
    ListAgg("texts", 1, ",", (SortKey.descending(1),)),
    Distinct("distinct sum", Sum("x", 5)),
    Distinct("distinct pairs", CountRows("x", (1, 3))),
    Filtered("some", Mean("x", 3), 4),
    Filtered("some different", Distinct("x", Sum("x", 3)), 4),
    Skewness("skewness", 3),
    Kurtosis("kurtosis", 3),
    VarSamp("variance", 5),
    Corr("corr", (3, 6)),
    CovarSamp("covariance", (3, 5)),
    RegrSlope("slope", (3, 6)),
    RegrIntercept("intercept", (3, 6)),
    RegrR2("r2", (3, 6)),
)


def with_weights(data: pa.Table) -> pa.Table:
    return data.append_column("w", pa.array(np.arange(len(data)) % 4, pa.int32()))


def alike(a: Any, b: Any) -> bool:
    """Equal up to the rounding of sums in another order, also in lists that have none."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    return bool(a == b)


def results(operator: GroupBy) -> dict[Any, tuple[Any, ...]]:
    """The values of each group, those of lists in one order."""
    return {
        row[0]: tuple(tuple(sorted(value, key=repr)) if isinstance(value, tuple) else value for value in row[1:])
        for row in listed(operator.finish())
    }


def single(aggregate: Aggregate, **columns: Any) -> Any:
    """The value of one group; its rows come one by one."""
    data = pa.table({"k": pa.array([1] * len(next(iter(columns.values())))), **columns})
    operator = GroupBy(GroupBySpec(data.schema, (0,), (aggregate,)))
    feed(operator, 0, data, rows=1)
    ((_, value),) = listed(operator.finish())
    return value


@settings(max_examples=60)
@given(
    data=hypothesis_rows(KINDS).map(with_weights),
    cuts=st.lists(st.integers(0, 40), max_size=5),
    order=st.randoms(use_true_random=False),
)
def test_parts_merged_in_any_order(data: pa.Table, cuts: list[int], order: Any) -> None:
    spec = GroupBySpec(data.schema, (0,), ANY_ORDER)
    whole = GroupBy(spec)
    feed(whole, 0, data)
    bounds = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    parts = []
    for start, stop in pairwise(bounds):
        part = GroupBy(spec, scattered=True)
        for batch in batches_of(data.slice(start, stop - start), 7):
            part.add(0, batch)
        parts += over_the_wire(part.export_scattered())
    order.shuffle(parts)
    owner = GroupBy(spec)
    for part in parts:
        owner.merge_state([part])
        owner.preview(1)  # what has come is merged, and more is merged into that
    owner.end_port(0)
    merged, wanted = results(owner), results(whole)
    assert merged.keys() == wanted.keys()
    for key, row in wanted.items():
        for aggregate, here, there in zip(ANY_ORDER, merged[key], row, strict=True):
            assert alike(here, there), f"{aggregate.name}: {here} != {there}"


@settings(max_examples=40)
@given(data=hypothesis_rows({"k": "boolean", "s": "string", "n": "byte"}))
def test_chosen_rows_are_among_the_best(data: pa.Table) -> None:
    """Of several rows that are equally good any may be chosen."""
    aggregates = (MaxBy("a", (1, 2)), MinBy("b", (1, 2)), Mode("c", 1), First("d", 1), Last("e", 1, ignore_nulls=True))
    operator = GroupBy(GroupBySpec(data.schema, (0,), aggregates))
    feed(operator, 0, data, rows=3)
    for key, most, least, mode, first, last in listed(operator.finish()):
        rows = [(s, n) for k, s, n in listed(data) if k == key]
        ranked = [n for _, n in rows if n is not None]
        assert most in {s for s, n in rows if ranked and n == max(ranked)} | ({None} if not ranked else set())
        assert least in {s for s, n in rows if ranked and n == min(ranked)} | ({None} if not ranked else set())
        counts = Counter(s for s, _ in rows if s is not None)
        assert counts[mode] == max(counts.values()) if counts else mode is None
        assert first in {s for s, _ in rows}
        assert last in set(counts) if counts else last is None


def test_all_values_the_same_have_no_shape() -> None:
    """A mean that is off by its rounding would give them one."""
    values = pa.array([0.1] * 7)
    assert single(Skewness("x", 1), v=values) is None
    assert single(Kurtosis("x", 1), v=values) is None
    assert math.isnan(float(single(Skewness("x", 1, legacy=True), v=values).replace("NaN", "nan")))
    others = pa.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.5])
    assert single(Corr("x", (1, 2)), v=values, w=others) is None
    assert single(RegrR2("x", (1, 2)), v=others, w=values) is None
    assert single(RegrR2("x", (1, 2)), v=values, w=others) == 1.0


def test_percentiles_of_weighed_values() -> None:
    values, often = pa.array([10.0, 20.0, 30.0, None]), pa.array([1, 3, 0, 5])
    for share, wanted in ((0.0, 10.0), (1 / 6, 15.0), (0.5, 20.0), (1.0, 20.0)):
        assert single(Percentile("p", 1, (share,), frequency=2), v=values, f=often) == pytest.approx(wanted)
    with pytest.raises(NegativeFrequency, match="a frequency of -2 in column 'f'") as caught:
        single(Percentile("p", 1, (0.5,), frequency=2), v=pa.array([1, 2]), f=pa.array([1, -2]))
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_near_percentiles_keep_the_type_of_the_column() -> None:
    longs = pa.array([2**63 - 1, -(2**63), 5])
    assert single(ApproxPercentile("p", 1, (0.0, 0.5, 1.0), as_list=True), v=longs) == (-(2**63), 5, 2**63 - 1)
    days = pa.array([19000, 19001, 19002], pa.int32()).cast(pa.date32())
    assert single(ApproxPercentile("p", 1, (0.5,)), v=days) == days[1].as_py()
    assert single(ApproxPercentile("p", 1, (), as_list=True), v=days) is None


def test_texts_are_joined_by_their_order() -> None:
    words, places = pa.array(["b", None, "a", "", "b"]), pa.array([2, 9, None, 1, 0])
    ordered = ListAgg("t", 1, "-", (SortKey(2),))
    assert single(ordered, s=words, n=places) == "a-b--b"
    assert single(ListAgg("t", 1, "-", (SortKey.descending(2),)), s=words, n=places) == "b--b-a"
    assert single(Distinct("t", ListAgg("t", 1, b"", (SortKey(1),))), s=words.cast(pa.binary())) == b"ab"
    assert single(ordered, s=pa.array([None], pa.string()), n=pa.array([1])) is None
    many = single(ListAgg("t", 1, ","), s=pa.array(["x", "y", "z"]))
    assert sorted(many.split(",")) == ["x", "y", "z"]


def test_groups_stay_when_no_row_of_them_counts() -> None:
    data = pa.table({"k": pa.array([1, 1, 2]), "v": pa.array([5, 6, 7]), "b": pa.array([True, None, False])})
    aggregates = (Filtered("n", CountAll("n"), 2), Filtered("s", Sum("s", 1), 2))
    spec = GroupBySpec(data.schema, (0,), aggregates)
    assert sorted(listed(run(spec, data))) == [(1, 1, 5), (2, 0, None)]
    assert spec.facts(lambda field: field.name)[1] == (
        "aggregates: count(*) filter (where b) AS n, sum(v) filter (where b) AS s"
    )
    assert Distinct("x", Sum("x", 1)).text(["v"]) == "sum(distinct v)"


def run(spec: GroupBySpec, data: pa.Table) -> list[pa.RecordBatch]:
    operator = GroupBy(spec)
    feed(operator, 0, data)
    return list(operator.finish())


def test_hashes_are_those_of_xxh64() -> None:
    """Values from the reference implementation; numbers hash as their bytes do."""
    texts = {"": 0xEF46DB3751D8E999, "a": 0xD24EC4F1A98C6E5B, "abc": 0x44BC2CF5AD770999}
    assert xxhash64(pa.array(list(texts)), seed=0).tolist() == list(texts.values())
    for number in (0, 1, -1, 2**31 - 1, -(2**31)):
        raw = pa.array([number.to_bytes(4, "little", signed=True), number.to_bytes(8, "little", signed=True)])
        short, long = xxhash64(pa.array([number], pa.int32())), xxhash64(pa.array([number], pa.int64()))
        assert xxhash64(raw).tolist() == [short[0], long[0]]
    sentence = "Nobody inspects the spammish repetition, and this is longer than one stripe of it " * 3
    cut = [sentence[:size] for size in range(0, 200, 7)]
    alone = [int(xxhash64(pa.array([text]))[0]) for text in cut]
    assert xxhash64(pa.array(cut)).tolist() == alone
    assert len(set(alone)) == len(cut)


@pytest.mark.parametrize("deviation", [0.2, 0.05, 0.01])
@pytest.mark.parametrize("count", [0, 1, 50, 20_000])
def test_counts_are_near_the_truth(count: int, deviation: float) -> None:
    """Without Spark's corrections, which are read from it, estimates of a middling size are a few percent too large."""
    data = pa.table(
        {"k": pa.array([1] * (count * 2 + 1)), "v": pa.array([None, *range(count), *range(count)], pa.int64())}
    )
    ((_, found),) = listed(run(GroupBySpec(data.schema, (0,), (ApproxCountDistinct("n", 1, deviation),)), data))
    assert abs(found - count) <= 4 * deviation * count


def test_extremes_of_structs_are_ordered_field_by_field() -> None:
    kind = pa.struct([("a", pa.int32()), ("b", pa.string())])
    rows = pa.array([{"a": 1, "b": "z"}, {"a": None, "b": "y"}, None, {"a": 1, "b": None}], kind)
    assert dict(single(Max("m", 1), v=rows)) == {"a": 1, "b": "z"}
    assert dict(single(Min("m", 1), v=rows)) == {"a": None, "b": "y"}


def test_types_that_aggregates_do_not_take() -> None:
    schema = pa.schema([("k", pa.int64()), ("l", pa.list_(pa.int8())), ("s", pa.string())])
    refused = (
        *(MaxBy("x", (2, 1)), Mode("x", 1), BitAnd("x", 2), Corr("x", (0, 2)), Skewness("x", 2), ListAgg("x", 0)),
        *(ApproxCountDistinct("x", 1), ApproxPercentile("x", 2, (0.5,)), Percentile("x", 0, (0.5,), frequency=2)),
    )
    for aggregate in refused:
        with pytest.raises(UnsupportedAggregate, match=r"group-by: .* of column '[kls]' of type"):
            GroupBy(GroupBySpec(schema, (0,), (aggregate,)))


def test_nothing_but_nulls() -> None:
    data = with_weights(table(KINDS, 5, seed=1, nulls=1.0))
    ((_, *values),) = listed(run(GroupBySpec(data.schema, (0,), ANY_ORDER), data))
    empty = {"set": (), "set with null": (None,), "list with nulls": (None,) * 5}
    counts = dict.fromkeys(("about", "about decimals", "distinct pairs"), 0)
    assert dict(zip([a.name for a in ANY_ORDER], values, strict=True)) == {
        **dict.fromkeys([a.name for a in ANY_ORDER]),
        **empty,
        **counts,
    }


def test_a_nan_is_the_largest_number() -> None:
    words, numbers = pa.array(["x", "y", "z"]), pa.array([1.0, NAN, math.inf])
    assert single(MaxBy("m", (1, 2)), s=words, d=numbers) == "y"
    assert single(BestBy("m", (1, 2), 2, largest=True), s=words, d=numbers) == ("y", "z")

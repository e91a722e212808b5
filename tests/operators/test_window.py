import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reshape.kernels.hashing import UnsupportedKeyType, hash_rows
from reshape.kernels.keys import KeyColumns
from reshape.kernels.ordering import Ordering, SortKey
from reshape.kernels.sort_keys import sorted_order
from reshape.operators.aggregates.sums import EvalMode
from reshape.operators.base import HashedKeys, MiniPartitions
from reshape.operators.errors import OutOfRange, PortError, StateMismatch, UnsupportedAggregate
from reshape.operators.ranged import beside_each
from reshape.operators.window import Window, WindowSpec
from reshape.operators.windows.description import WindowFunction
from reshape.operators.windows.extremes import Max, Min
from reshape.operators.windows.frame import Frame, changes
from reshape.operators.windows.ranks import CumeDist, DenseRank, NTile, PercentRank, Rank, RowNumber
from reshape.operators.windows.sums import Count, Mean, Sum
from reshape.operators.windows.values import NthValue, Shifted

from .samples import NAN, VALUES, feed, hypothesis_rows, listed, over_the_wire, rows_held, rows_of, table
from .window_reference import windows_of

FUNCTIONS = (RowNumber, Rank, DenseRank, PercentRank, CumeDist, NTile, Shifted, NthValue, Count, Sum, Mean, Min, Max)
FRAMES = [
    Frame(),
    Frame("rows", None, 0),
    Frame("range", None, 0),
    Frame("range", 0, 0),
    Frame("range", 0, None),
    Frame("rows", 0, None),
    Frame("rows", -2, 0),
    Frame("rows", -1, 3),
    Frame("rows", 2, 4),
    Frame("rows", -5, -3),
    Frame("rows", None, -1),
    Frame("rows", None, 2),
    Frame("rows", -3, None),
    Frame("rows", 3, 1),
    Frame("rows", -(2**31), 2**31 - 1),
]
NUMBERS = ("long", "int", "short", "byte", "double", "float", "decimal")


def numbered(data: pa.Table) -> pa.Table:
    """A column that tells rows apart, so that an order by it knows no equal rows."""
    return data.append_column("row", pa.array(np.random.default_rng(5).permutation(len(data))))


def finished(spec: WindowSpec, data: pa.Table, **options: Any) -> list[tuple[Any, ...]]:
    operator = Window(spec, **options)
    assert feed(operator, 0, data, rows=35) == []
    out = list(operator.finish())
    assert all(batch.schema.equals(spec.output_schema) for batch in out)
    return listed(out)


def check(spec: WindowSpec, data: pa.Table, **options: Any) -> None:
    """Partitions as a whole, and in stretches where they can be computed so. Ranges: one that has no other beside it,
    some with a stretch each, and some with many."""
    wanted = rows_of_list(windows_of(spec, data))
    for rows, numbers in ((len(data) + 1, (1, 9)), (6, (2,))):
        assert rows_of_list(finished(spec, data, piece_rows=rows, **options)) == wanted
        for ranges in numbers if spec.looks_beyond is not None else ():
            assert rows_of_list(listed(in_ranges(spec, data, ranges, piece_rows=rows))) == wanted


def in_ranges(spec: WindowSpec, data: pa.Table, ranges: int, **options: Any) -> list[pa.RecordBatch]:
    """Each range of all rows, or of each of some keys, with an operator of its own, some of them without a row; what
    one leaves to the next travels as it does between hosts. Peers are in one range; other keys have one owner."""
    assert spec.sorted_by is not None
    rng = np.random.default_rng(ranges)
    columns = [data.column(key.column).combine_chunks() for key in spec.sorted_by.keys]
    order = sorted_order(columns, spec.sorted_by)
    peers = np.cumsum(changes(KeyColumns(columns, len(data)), order)) - 1
    keyed = columns[: len(set(spec.keys))]
    codes, firsts = KeyColumns(keyed, len(data)).codes()
    shared = rng.permutation(len(firsts))[: 3 if keyed else 1]
    worker_of = rng.integers(0, ranges, len(firsts) + 1)[codes]
    for key in shared:
        places = np.flatnonzero(codes[order] == key)
        bounds = np.sort(rng.choice(peers[places], ranges - 1))
        worker_of[order[places]] = np.searchsorted(bounds, peers[places], side="left")
    operators = [Window(spec, **options) for _ in range(ranges)]
    for worker, operator in enumerate(operators):
        # As they came, for that is the order of peers.
        assert feed(operator, 0, data.take(np.flatnonzero(worker_of == worker)), 35) == []
    names = pa.schema([data.schema.field(key.column) for key in spec.sorted_by.keys][: len(keyed)])
    keys = pa.record_batch([column.take(pa.array(firsts[shared])) for column in keyed], schema=names)
    for operator in operators:
        assert operator.share(keys if keyed else None) == (len(shared) if keyed else 1)
    for partition in range(len(shared)):
        stands = beside_each([operator.edges(partition) for operator in operators], spec.looks_beyond or 0)
        left: pa.RecordBatch | None = None
        for operator, beside in zip(operators, stands, strict=True):
            operator.meet(partition, beside)
            if spec.carries:
                [left] = over_the_wire([operator.carry(partition, left)])
    return [batch for operator in operators for batch in operator.finish()]


def rows_of_list(rows: list[tuple[Any, ...]]) -> list[str]:
    return sorted(map(repr, rows))


def smaller(data: pa.Table) -> pa.Table:
    """Without the largest longs, whose sums do not fit."""
    values = [None if v is None or abs(v) > 2**40 else v for v in data.column("v").to_pylist()]
    return data.set_column(data.schema.get_field_index("v"), "v", pa.array(values, pa.int64()))


@pytest.mark.parametrize("kind", FUNCTIONS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("order", [(SortKey(2),), (SortKey.descending(2), SortKey(3)), ()], ids=["ties", "none", "no"])
def test_every_function(kind: type[WindowFunction], order: tuple[SortKey, ...]) -> None:
    data = numbered(smaller(table({"k": "string", "v": "long", "o": "double"}, 120, seed=3)))
    for keys in ((0,), (), (0, 2)):
        check(WindowSpec(data.schema, keys, Ordering(order) if order else None, kind.examples()), data)


@pytest.mark.parametrize("frame", FRAMES, ids=str)
@pytest.mark.parametrize("kind", VALUES)
def test_every_frame_and_type(kind: str, frame: Frame) -> None:
    data = numbered(table({"k": "int", "v": kind, "o": "double"}, 60, seed=4))
    functions: list[WindowFunction] = [
        Count("count", 1, frame),
        Min("min", 1, frame),
        Max("max", 1, frame),
        NthValue("first", 1, frame),
        NthValue("last", 1, frame, -1),
        NthValue("third", 1, frame, 3),
    ]
    if kind in NUMBERS and kind != "long":
        functions += [Sum("sum", 1, frame), Mean("mean", 1, frame)]
    for order in ((SortKey(2),), (SortKey(2, nulls_first=False), SortKey.descending(3))):
        spec = WindowSpec(data.schema, (0,), Ordering(order), tuple(functions))
        check(spec, data)
        if spec.reach is not None:
            check(replace(spec, keys=()), data)
        check(replace(spec, functions=(NthValue("third value", 1, frame, 3, ignore_nulls=True),)), data)


@pytest.mark.parametrize("kind", ["short", "int", "double", "float"])
def test_distances_of_values(kind: str) -> None:
    """Half of a distance is between two values of floats; infinity, NaN and null have frames of their own."""
    is_whole = kind in ("short", "int")
    arrow_type, found = VALUES[kind]
    values: list[Any] = [1, 2, 3, 7, 9, -4] if is_whole else [*found, 0.5, 1.0, 2.5]
    rng = np.random.default_rng(10)
    some = [None if rng.random() < 0.1 else values[int(n)] for n in rng.integers(0, len(values), 160)]
    data = pa.table({"k": pa.array(rng.integers(0, 4, 160)), "v": range(160), "o": pa.array(some, arrow_type)})
    for lower, upper in ((-2, 0), (-1, 3), (None, -1), (2, None), (1, 2), (-3, -2), (-1.5, 1.5)):
        if is_whole and isinstance(lower, float):
            continue
        frame = Frame("range", lower, upper)
        functions = (Count("n", None, frame), Sum("s", 1, frame), Max("m", 1, frame))
        for ascending, first in ((True, True), (False, False), (True, False), (False, True)):
            check(WindowSpec(data.schema, (0,), Ordering((SortKey(2, ascending, first),)), functions), data)


def test_a_distance_beyond_the_type() -> None:
    data = pa.table({"o": pa.array([1, 2**15 - 2], pa.int16())})
    spec = WindowSpec(data.schema, (), Ordering((SortKey(0),)), (Count("n", None, Frame("range", 0, 5)),))
    with pytest.raises(OutOfRange, match="does not fit int16"):
        finished(spec, data)


@given(hypothesis_rows({"k": "string", "v": "double", "o": "int"}), st.sampled_from(FRAMES), st.booleans())
@settings(max_examples=150)
def test_any_rows(data: pa.Table, frame: Frame, by_key: bool) -> None:
    functions = (Rank("rank"), Sum("sum", 1, frame), Mean("mean", 1, frame), Min("min", 1, frame), Max("max", 1, frame))
    spec = WindowSpec(data.schema, (0,) if by_key else (), Ordering((SortKey.descending(2),)), functions)
    check(spec, data, run_rows=7)


@given(hypothesis_rows({"k": "int", "v": "short", "o": "double"}, 60), st.data())
@settings(max_examples=100)
def test_owner_and_helpers_give_the_result_of_one(data: pa.Table, draw: st.DataObject) -> None:
    """Rows scattered over helpers, and keys handed over and back between two of them."""
    data = numbered(data)
    functions = (RowNumber("place"), Sum("sum", 1), Shifted("lag", 1, -1), Mean("near", 1, Frame("rows", -2, 2)))
    spec = WindowSpec(data.schema, (0,), Ordering((SortKey(2), SortKey(3))), functions)
    owner = Window(spec, run_rows=10)
    helpers = [Window(spec, scattered=True, run_rows=10) for _ in range(3)]
    for row in range(len(data)):
        at = draw.draw(st.sampled_from([owner, *helpers]))
        at.add(0, data.slice(row, 1).to_batches()[0])
        if draw.draw(st.booleans()):
            giver, taker = draw.draw(st.permutations([owner, *helpers]))[:2]
            keys = MiniPartitions(frozenset({draw.draw(st.integers(0, 3))}), 1, 4)
            taker.merge_state(over_the_wire(giver.export_state(keys, remove=True)))
    for helper in helpers:
        owner.merge_state(over_the_wire(helper.export_scattered()))
        assert rows_held(helper) == 0
    owner.end_port(0)
    assert rows_of_list(listed(owner.finish())) == rows_of_list(windows_of(spec, data))


def test_state_of_some_keys_moves() -> None:
    data = numbered(table({"k": "string", "v": "int"}, 300, seed=6))
    spec = WindowSpec(data.schema, (0,), Ordering((SortKey(2),)), (RowNumber("place"),))
    source, target = Window(spec, run_rows=40), Window(spec)
    feed(source, 0, data)
    # Who chooses among keys chooses among all that the order knows.
    chosen = data.filter(pc.is_in(data["k"], pa.array(["a", None, "ß"])))
    columns = [chosen.column(column).combine_chunks() for column in spec.ports[0].ordering.columns]  # type: ignore[union-attr]
    moved = HashedKeys(frozenset(int(h) for h in hash_rows(columns)))
    before = source.state_bytes
    target.merge_state(over_the_wire(source.export_state(moved, remove=True)))
    assert 0 < source.state_bytes < before
    target.end_port(0)
    there, here = listed(target.finish()), listed(source.finish())
    assert {row[0] for row in there} == {"a", None, "ß"}
    assert rows_of_list(there + here) == rows_of_list(windows_of(spec, data))


def test_one_giant_partition_and_many_of_one_row() -> None:
    rows = 40_000
    rng = np.random.default_rng(8)
    keys = np.where(rng.random(rows) < 0.6, 0, np.arange(rows))
    data = pa.table({"k": keys, "v": rng.random(rows), "o": rng.permutation(rows)})
    functions = (RowNumber("n"), Sum("s", 1), Mean("m", 1, Frame("rows", -3, 0)), Max("x", 1), Shifted("l", 1, -1))
    spec = WindowSpec(data.schema, (0,), Ordering((SortKey(2),)), functions)
    got = {row[2]: row for row in finished(spec, data, run_rows=9_000, piece_rows=2_000)}
    frame = data.to_pandas().sort_values("o")
    groups = frame.groupby("k").v
    frame["n"], frame["s"], frame["x"] = groups.cumcount() + 1, groups.cumsum(), groups.cummax()
    frame["l"] = groups.shift(1)
    assert len(got) == rows
    for row in frame.sample(2_000, random_state=1).itertuples():
        _, value, _, n, s, _, x, lag = got[row.o]
        assert (value, n, x) == (row.v, row.n, row.x)
        assert s == pytest.approx(row.s, rel=1e-12)
        assert lag == row.l or (lag is None and np.isnan(row.l))
    hot = frame[frame.k == 0]
    assert got[hot.o.iloc[-1]][4] == float(np.cumsum(hot.v.to_numpy())[-1]), "added in the order of rows"


def test_sums_that_leave_64_bits() -> None:
    values = [2**62, 2**62, -(2**62), 5, None]
    data = pa.table({"o": range(5), "v": pa.array(values, pa.int64())})

    def summed(frame: Frame, mode: EvalMode) -> list[Any]:
        spec = WindowSpec(data.schema, (), Ordering((SortKey(0),)), (Sum("s", 1, frame, mode),))
        whole, one_by_one = (finished(spec, data, piece_rows=rows) for rows in (5, 1))
        assert whole == one_by_one
        return [row[2] for row in whole]

    running, near = Frame("rows", None, 0), Frame("rows", -2, 0)
    for frame in (running, near, Frame()):
        with pytest.raises(OutOfRange, match=r"window: sum of column 'v' does not fit bigint"):
            summed(frame, EvalMode.ANSI)
    # Spark adds row by row: what has overflowed stays so, though the sum of all would fit.
    assert summed(running, EvalMode.TRY) == [2**62, None, None, None, None]
    assert summed(near, EvalMode.TRY) == [2**62, None, None, 5, 5 - 2**62]
    assert summed(running, EvalMode.LEGACY) == [2**62, -(2**63), 2**62, 2**62 + 5, 2**62 + 5]
    assert summed(Frame("rows", -1, -1), EvalMode.ANSI) == [None, 2**62, 2**62, -(2**62), 5]


def test_large_decimals() -> None:
    from decimal import Decimal

    values = [Decimal("9" * 30 + ".99"), Decimal("-1.01"), None, Decimal("9" * 30 + ".99"), Decimal("0.03")]
    data = pa.table({"o": range(5), "v": pa.array(values, pa.decimal128(38, 2))})
    functions = (Sum("s", 1), Sum("near", 1, Frame("rows", -1, 0)), Min("low", 1), Max("high", 1))
    spec = WindowSpec(data.schema, (), Ordering((SortKey(0),)), functions)
    check(spec, data)
    assert spec.output_schema.field("s").type == pa.decimal128(38, 2)
    most = pa.table({"o": range(2), "v": pa.array([Decimal("9" * 36 + ".99")] * 2, pa.decimal128(38, 2))})
    with pytest.raises(OutOfRange, match=r"window: sum of column 'v' does not fit decimal128\(38, 2\)"):
        finished(spec, most)


@pytest.mark.parametrize("by_doubles", [False, True])
def test_means_of_decimals_are_rounded_half_up(by_doubles: bool) -> None:
    from decimal import Decimal

    rng = np.random.default_rng(9)
    values = [Decimal(int(value)).scaleb(-2) for value in rng.integers(-(10**6), 10**6, 400)]
    data = pa.table({"o": range(400), "v": pa.array(values, pa.decimal128(9, 2))})
    frames = (Frame("rows", None, 0), Frame("rows", -31, 0), Frame("rows", -6, 6))
    functions = tuple(Mean(str(n), 1, frame, by_doubles=by_doubles) for n, frame in enumerate(frames))
    check(WindowSpec(data.schema, (), Ordering((SortKey(0),)), functions), data)


def test_zeros_keep_the_sign_of_the_first() -> None:
    data = pa.table({"o": range(4), "v": [0.0, -0.0, NAN, -0.0]})
    spec = WindowSpec(
        data.schema, (), Ordering((SortKey(0),)), (Min("all", 1), Min("last two", 1, Frame("rows", -1, 0)))
    )
    for rows in (4, 1):
        operator = Window(spec, piece_rows=rows)
        feed(operator, 0, data)
        out = pa.Table.from_batches(operator.finish())
        assert list(map(str, out.column("all").to_pylist())) == ["0.0", "0.0", "0.0", "0.0"]
        assert list(map(str, out.column("last two").to_pylist())) == ["0.0", "0.0", "-0.0", "-0.0"]


def test_a_large_partition_leaves_in_stretches() -> None:
    """Its first rows are there before the others are computed, and peers are never apart."""
    data = pa.table({"k": [1] * 40, "v": range(40), "o": [n // 9 for n in range(40)]})
    functions = (Rank("r"), DenseRank("d"), Count("n"), Shifted("before", 1, -2), Sum("s", 1, Frame("range", 0, 0)))
    spec = WindowSpec(data.schema, (0,), Ordering((SortKey(2),)), functions)
    operator = Window(spec, piece_rows=4)
    feed(operator, 0, data)
    batches = list(operator.finish())
    assert [batch.num_rows for batch in batches] == [9, 9, 9, 9, 4]
    assert rows_of_list(listed(batches)) == rows_of_list(windows_of(spec, data))
    last = replace(spec, functions=(*functions, NthValue("last", 1, Frame())))
    assert spec.reach == 2
    assert last.reach is None, "the last row answers for the first"
    check(last, data)


def test_nulls_do_not_hide_the_greatest_numbers() -> None:
    values = [None, 2**63 - 1, None, -(2**63)]
    data = pa.table({"o": range(4), "v": pa.array(values, pa.int64())})
    functions = (Min("min", 1), Max("max", 1), Min("two", 1, Frame("rows", -1, 0)), Max("2", 1, Frame("rows", -1, 0)))
    check(WindowSpec(data.schema, (), Ordering((SortKey(0),)), functions), data)


def test_no_rows() -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.float64())])
    for keys in ((0,), ()):
        spec = WindowSpec(schema, keys, Ordering((SortKey(1),)), (RowNumber("n"), Sum("s", 1), Max("m", 1)))
        operator = Window(spec)
        assert operator.preview(10) is None
        assert operator.preview_part(10) is None
        feed(operator, 0, schema.empty_table())
        assert list(operator.finish()) == []


def test_previews_show_the_windows_of_rows_that_have_come() -> None:
    data = numbered(table({"k": "int", "v": "int"}, 500, seed=7, nulls=0.0))
    spec = WindowSpec(data.schema, (0,), Ordering((SortKey(2),)), (RowNumber("n"), Sum("s", 1)))
    whole, helper = Window(spec, run_rows=60), Window(spec, scattered=True, run_rows=60)
    feed(whole, 0, data.slice(0, 300))
    feed(helper, 0, data.slice(300))
    wanted = windows_of(spec, data)
    parts = [part for worker in (whole, helper) if (part := worker.preview_part(80)) is not None]
    (shown,) = spec.merged_preview(over_the_wire(parts), 80)
    assert shown.num_rows == 80
    assert set(listed([shown])) <= set(wanted)
    alone = whole.preview(50)
    assert alone is not None
    assert set(listed([alone])) <= set(windows_of(spec, data.slice(0, 300)))
    whole.merge_state(helper.export_scattered())
    assert rows_of(whole.finish()) == rows_of_counter(wanted)


def rows_of_counter(rows: list[tuple[Any, ...]]) -> Any:
    from collections import Counter

    return Counter(rows)


def test_output_comes_in_bounded_batches() -> None:
    data = numbered(table({"k": "int"}, 500, seed=7))
    spec = WindowSpec(data.schema, (0,), None, (Count("n"),))
    operator = Window(spec, output_rows=64)
    feed(operator, 0, data)
    assert max(batch.num_rows for batch in operator.finish()) == 64
    assert all(function.text(["v"]) for kind in FUNCTIONS for function in kind.examples())


def test_it_says_what_is_wrong() -> None:
    schema = pa.schema([("k", pa.int64()), ("l", pa.list_(pa.int64())), ("s", pa.string())])
    order = Ordering((SortKey(0),))
    with pytest.raises(UnsupportedKeyType, match="window: column 'l'"):
        WindowSpec(schema, (1,), order, ()).build()
    with pytest.raises(UnsupportedKeyType, match="window: column 'l'"):
        WindowSpec(schema, (0,), Ordering((SortKey(1),)), ()).build()
    for function in (Sum("x", 2), Mean("x", 2), Max("x", 1)):
        with pytest.raises(UnsupportedAggregate, match="window: "):
            WindowSpec(schema, (0,), order, (function,)).build()
    spec = WindowSpec(schema, (0,), order, (RowNumber("n"),))
    with pytest.raises(StateMismatch):
        spec.build().merge_state([pa.record_batch({"x": [1]})])
    with pytest.raises(PortError, match="has not ended"):
        spec.build().finish()
    with pytest.raises(PortError, match="merged at its owner"):
        helper = spec.build(scattered=True)
        helper.end_port(0)
        helper.finish()


def test_every_function_travels() -> None:
    functions = [function for kind in FUNCTIONS for function in kind.examples()]
    assert pickle.loads(pickle.dumps(functions)) == functions

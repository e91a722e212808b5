import itertools
import pickle
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reshape.kernels.hashing import UnsupportedKeyType, hash_rows
from reshape.operators.base import HashedKeys, MiniPartitions
from reshape.operators.errors import KeyTypesDiffer, PortError, StateMismatch
from reshape.operators.hash_join import BUILD, PROBE, HashJoin, JoinSpec, OutputColumn

from .samples import (
    HASHES_LIKE_NULL,
    VALUES,
    batches_of,
    feed,
    hypothesis_rows,
    over_the_wire,
    rows_held,
    rows_of,
    same_hash,
    table,
)

KINDS = ("inner", "left", "right", "full", "left_semi", "left_anti")
SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")


def spec_of(left: pa.Table, right: pa.Table, keys: int, how: Any, build: Any = "right") -> JoinSpec:
    """All columns of both sides; the first `keys` columns of each are the keys."""
    output = [OutputColumn(name, i, None) for i, name in enumerate(left.column_names)]
    if how not in ("left_semi", "left_anti"):
        output += [OutputColumn(name, None, i) for i, name in enumerate(right.column_names)]
    numbers = tuple(range(keys))
    return JoinSpec(left.schema, right.schema, numbers, numbers, how, tuple(output), build)


def joined(spec: JoinSpec, left: pa.Table, right: pa.Table, rows: int = 100, **options: Any) -> list[pa.RecordBatch]:
    operator = HashJoin(spec, **options)
    build, probe = (right, left) if spec.build_side == "right" else (left, right)
    out = feed(operator, BUILD, build, rows)
    out += feed(operator, PROBE, probe, rows)
    out += operator.finish()
    assert all(batch.schema.equals(operator.output_schema) for batch in out)
    return out


def expected(left: pa.Table, right: pa.Table, keys: int, how: str) -> Any:
    """A join by the book: nested loops over Python values."""
    from collections import Counter

    from .samples import listed

    here, there = listed(left), listed(right)
    found: Counter[tuple[Any, ...]] = Counter()
    met: set[int] = set()
    nothing_right, nothing_left = (None,) * right.num_columns, (None,) * left.num_columns
    for row in here:
        matches = [i for i, other in enumerate(there) if None not in row[:keys] and row[:keys] == other[:keys]]
        met.update(matches)
        if how == "left_semi":
            found.update([row] if matches else [])
        elif how == "left_anti":
            found.update([] if matches else [row])
        else:
            found.update(row + there[i] for i in matches)
            if not matches and how in ("left", "full"):
                found[row + nothing_right] += 1
    if how in ("right", "full"):
        found.update(nothing_left + other for i, other in enumerate(there) if i not in met)
    return found


@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize("keys", [("long",), ("string",), ("double", "date"), ("decimal", "boolean", "timestamp")])
def test_equals_spark(spark: Any, how: str, keys: tuple[str, ...]) -> None:
    kinds = {f"k{i}": kind for i, kind in enumerate(keys)}
    left = table({**kinds, "v": "int"}, 300, seed=1)
    right = table({**{name.upper() + "r": kind for name, kind in kinds.items()}, "w": "string"}, 60, seed=2)
    a, b = spark.createDataFrame(left), spark.createDataFrame(right)
    condition = [a[name] == b[name.upper() + "r"] for name in kinds]
    wanted = rows_of(a.join(b, condition, how).toArrow())
    for build in SIDES:
        assert rows_of(joined(spec_of(left, right, len(keys), how, build), left, right)) == wanted


def test_key_of_full_join_on_names_equals_spark(spark: Any) -> None:
    left, right = table({"k": "string", "v": "int"}, 50, seed=3), table({"k": "string", "w": "int"}, 40, seed=4)
    wanted = rows_of(spark.createDataFrame(left).join(spark.createDataFrame(right), "k", "full").toArrow())
    output = (OutputColumn("k", 0, 0), OutputColumn("v", 1), OutputColumn("w", None, 1))
    for build in SIDES:
        spec = JoinSpec(left.schema, right.schema, (0,), (0,), "full", output, build)
        assert rows_of(joined(spec, left, right)) == wanted


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("how", KINDS)
def test_every_key_type(kind: str, how: str) -> None:
    left, right = table({"k": kind, "v": "int"}, 60, seed=5), table({"r": kind, "w": "int"}, 40, seed=6)
    wanted = expected(left, right, 1, how)
    for build in SIDES:
        assert rows_of(joined(spec_of(left, right, 1, how, build), left, right, rows=17)) == wanted


@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize(("left_rows", "right_rows"), [(0, 0), (0, 5), (5, 0), (1, 1)])
def test_empty_sides_and_single_rows(how: str, left_rows: int, right_rows: int) -> None:
    left, right = table({"k": "long"}, left_rows, seed=7), table({"r": "long"}, right_rows, seed=8)
    for build in SIDES:
        out = joined(spec_of(left, right, 1, how, build), left, right)
        assert rows_of(out) == expected(left, right, 1, how)


@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize("modulus", [1, 2, 5])
def test_collisions_make_no_wrong_rows(how: str, modulus: int) -> None:
    left, right = table({"k": "string", "d": "date"}, 80, seed=9), table({"r": "string", "e": "date"}, 50, seed=10)
    wanted = expected(left, right, 2, how)
    for build in SIDES:
        spec = spec_of(left, right, 2, how, build)
        assert rows_of(joined(spec, left, right, hash_function=same_hash(modulus))) == wanted


@pytest.mark.parametrize("how", KINDS)
def test_null_does_not_match_the_value_that_hashes_like_it(how: str) -> None:
    values = pa.array([HASHES_LIKE_NULL, None])
    assert len(set(hash_rows([values]).tolist())) == 1
    left, right = pa.table({"k": values}), pa.table({"r": values})
    for build in SIDES:
        assert rows_of(joined(spec_of(left, right, 1, how, build), left, right)) == expected(left, right, 1, how)


@pytest.mark.parametrize("how", KINDS)
def test_build_rows_that_come_in_mid_probe_change_nothing_before(how: str) -> None:
    left = pa.table({"k": pa.array([1, 2, 3, None, 9])})
    right = pa.table({"r": pa.array([1, 1, None, 7, 3])})
    spec = spec_of(left, right, 1, how)
    owner, other = HashJoin(spec), HashJoin(spec)
    feed(owner, BUILD, right.slice(0, 3))
    feed(other, BUILD, right.slice(3))
    (first,) = left.to_batches()
    out = list(owner.add(PROBE, first.slice(0, 2)))
    owner.merge_state(over_the_wire(other.export_state(None, remove=True)))
    out += owner.add(PROBE, first.slice(2))
    owner.end_port(PROBE)
    out += owner.finish()
    assert rows_of(out) == expected(left, right, 1, how)


def test_one_probe_row_with_many_matches_comes_in_bounded_batches() -> None:
    left = pa.table({"k": pa.array([1, 2, 1, 3])})
    right = pa.table({"r": pa.array([1] * 1000 + [3, 1]), "w": pa.array(range(1002))})
    out = joined(spec_of(left, right, 1, "left"), left, right, rows=5000, output_rows=64)
    assert max(batch.num_rows for batch in out) == 64
    assert rows_of(out) == expected(left, right, 1, "left")


def test_result_is_made_while_it_is_read_even_if_build_rows_come_or_go() -> None:
    left, right = pa.table({"k": pa.array([1] * 10)}), pa.table({"r": pa.array([1] * 10)})
    operator = HashJoin(spec_of(left, right, 1, "inner"), output_rows=7)
    feed(operator, BUILD, right)
    out = operator.add(PROBE, left.to_batches()[0])
    first = next(out)
    moved = list(operator.export_state(None, remove=True))
    assert rows_held(operator) == 0
    assert first.num_rows + sum(batch.num_rows for batch in out) == 100
    operator.merge_state(moved)
    assert sum(batch.num_rows for batch in operator.add(PROBE, left.to_batches()[0])) == 100


def test_struct_keys_match_with_nulls_inside() -> None:
    struct = pa.struct([("a", pa.int64()), ("b", pa.string())])
    values = [{"a": 1, "b": None}, {"a": 1, "b": "x"}, None, {"a": None, "b": None}]
    left = pa.table({"k": pa.array(values, struct)})
    right = pa.table({"r": pa.array([*values, values[0]], struct)})
    out = rows_of(joined(spec_of(left, right, 1, "inner"), left, right))
    assert sum(out.values()) == 4


def test_dictionary_encoded_keys() -> None:
    values = pa.array(["a", "b", None, "a"])
    left, right = pa.table({"k": values.dictionary_encode()}), pa.table({"r": values.dictionary_encode()})
    out = rows_of(joined(spec_of(left, right, 1, "inner"), left, right))
    assert out == {("a", "a"): 4, ("b", "b"): 1}


@settings(max_examples=60)
@given(
    left=hypothesis_rows({"k": "string", "v": "byte"}),
    right=hypothesis_rows({"r": "string", "w": "byte"}),
    how=st.sampled_from(KINDS),
    build=st.sampled_from(SIDES),
    shares=st.lists(st.integers(0, 2), min_size=1, max_size=50),
    rows=st.integers(1, 12),
    output_rows=st.integers(1, 20),
)
def test_probe_rows_split_over_owner_and_helpers(
    left: pa.Table, right: pa.Table, how: str, build: str, shares: list[int], rows: int, output_rows: int
) -> None:
    """Split by records: the build rows are replicated, each probe batch goes to any of the three workers."""
    spec = spec_of(left, right, 1, how, build)
    build_side, probe_side = (right, left) if build == "right" else (left, right)
    workers = [HashJoin(spec, scattered=i > 0, output_rows=output_rows) for i in range(3)]
    owner, helpers = workers[0], workers[1:]
    feed(owner, BUILD, build_side, rows)
    out: list[pa.RecordBatch] = []
    for helper in helpers:
        helper.end_port(BUILD)
        helper.merge_state(over_the_wire(owner.export_state(None, remove=False)))
    for batch, number in zip(batches_of(probe_side, rows), itertools.cycle(shares)):
        out += workers[number].add(PROBE, batch)
    helpers[1].merge_state(over_the_wire(owner.export_state(None, remove=False)))  # a replica that is already there
    for worker in workers:
        worker.end_port(PROBE)
    for helper in helpers:
        owner.merge_state(over_the_wire(helper.export_scattered()))
        assert rows_held(helper) == 0
    out += owner.finish()
    assert all(0 < batch.num_rows <= output_rows for batch in out)
    assert rows_of(out) == expected(left, right, 1, how)


@settings(max_examples=40)
@given(
    left=hypothesis_rows({"k": "long", "v": "byte"}),
    right=hypothesis_rows({"r": "long", "w": "byte"}),
    how=st.sampled_from(KINDS),
    shares=st.lists(st.integers(0, 2), min_size=1, max_size=50),
    reverse=st.booleans(),
)
def test_build_rows_scattered_over_workers(
    left: pa.Table, right: pa.Table, how: str, shares: list[int], reverse: bool
) -> None:
    """Split by records in the build phase: all parts are merged at the owner before the probe."""
    spec = spec_of(left, right, 1, how)
    workers = [HashJoin(spec, scattered=i > 0) for i in range(3)]
    for batch, worker in zip(batches_of(right, 3), itertools.cycle(shares)):
        assert list(workers[worker].add(BUILD, batch)) == []
    parts = [over_the_wire(helper.export_scattered()) for helper in workers[1:]]
    for part in reversed(parts) if reverse else parts:
        workers[0].merge_state(part)
    workers[0].end_port(BUILD)
    out = feed(workers[0], PROBE, left)
    out += workers[0].finish()
    assert rows_of(out) == expected(left, right, 1, how)


@settings(max_examples=40)
@given(
    left=hypothesis_rows({"k": "string", "v": "byte"}),
    right=hypothesis_rows({"r": "string", "w": "byte"}),
    how=st.sampled_from(KINDS),
    modulus=st.integers(1, 4),
)
def test_whole_keys_moved_in_mid_probe(left: pa.Table, right: pa.Table, how: str, modulus: int) -> None:
    """Split by keys: some keys go to a helper with all that is known of them, and never come back."""
    spec = spec_of(left, right, 1, how)
    owner, helper = HashJoin(spec), HashJoin(spec)
    feed(owner, BUILD, right)
    helper.end_port(BUILD)
    half = left.num_rows // 2
    out: list[pa.RecordBatch] = []
    for batch in batches_of(left.slice(0, half), 7):
        out += owner.add(PROBE, batch)
    keys = MiniPartitions(frozenset({0}), 1, modulus)
    before = rows_held(owner)
    helper.merge_state(over_the_wire(owner.export_state(keys, remove=True)))
    assert rows_held(owner) + rows_held(helper) == before
    for batch in batches_of(left.slice(half), 7):
        mine = keys.holds(hash_rows([batch.column(0)]))
        out += helper.add(PROBE, batch.filter(pa.array(mine)))
        out += owner.add(PROBE, batch.filter(pa.array(~mine)))
    for worker in (owner, helper):
        worker.end_port(PROBE)
        out += worker.finish()
    assert rows_of(out) == expected(left, right, 1, how)


def test_named_keys_and_no_others_are_moved() -> None:
    right = pa.table({"r": pa.array([1, 2, 3, 2, None]), "w": pa.array(range(5))})
    operator = HashJoin(spec_of(pa.table({"k": pa.array([0])}), right, 1, "right"))
    feed(operator, BUILD, right)
    keys = HashedKeys(frozenset(hash_rows([pa.array([2, 9])]).tolist()))
    (batch,) = operator.export_state(keys, remove=True)
    assert sorted(batch.column("w").to_pylist()) == [1, 3]
    assert rows_held(operator) == 3
    assert list(operator.export_state(keys, remove=True)) == []


def test_matches_of_rows_that_nobody_has_are_an_error() -> None:
    one = pa.table({"k": pa.array([1])})
    spec = spec_of(one, pa.table({"r": pa.array([1])}), 1, "right")
    owner, helper = HashJoin(spec), HashJoin(spec, scattered=True)
    feed(owner, BUILD, one.rename_columns(["r"]))
    helper.end_port(BUILD)
    helper.merge_state(owner.export_state(None, remove=False))
    feed(helper, PROBE, one)
    stranger = HashJoin(spec)
    stranger.end_port(BUILD)
    stranger.end_port(PROBE)
    stranger.merge_state(helper.export_scattered())
    with pytest.raises(StateMismatch, match="1 unknown rows"):
        stranger.finish()


def test_null_keys_are_kept_only_when_they_are_shown() -> None:
    right = pa.table({"r": pa.array([None, 1, None], pa.int64())})
    left = pa.table({"k": pa.array([1])})
    for how, kept in (("inner", 1), ("left", 1), ("right", 3), ("full", 3)):
        operator = HashJoin(spec_of(left, right, 1, how))
        feed(operator, BUILD, right)
        assert rows_held(operator) == kept


def test_mutability_is_that_of_table_1() -> None:
    one = pa.table({"k": pa.array([1])})
    operator = HashJoin(spec_of(one, one, 1, "full"))
    assert operator.spec.ports[BUILD].mutable
    assert not operator.spec.ports[PROBE].mutable


def test_preview_and_size() -> None:
    left, right = pa.table({"k": pa.array(range(500))}), pa.table({"r": pa.array(range(500))})
    operator = HashJoin(spec_of(left, right, 1, "inner"))
    assert operator.preview(5) is None
    feed(operator, BUILD, right)
    assert operator.state_bytes >= 500 * 8
    feed(operator, PROBE, left)
    shown = operator.preview(5)
    assert shown is not None
    assert shown.num_rows == 5


def test_errors_name_what_is_wrong() -> None:
    one, text = pa.table({"k": pa.array([1])}), pa.table({"t": pa.array(["x"])})
    with pytest.raises(KeyTypesDiffer, match="'k' is int64 but 't' is string") as differ:
        spec_of(one, text, 1, "inner")
    lists = pa.table({"l": pa.array([[1]])})
    with pytest.raises(UnsupportedKeyType, match="hash join: column 'l' of type list") as unsupported:
        spec_of(lists, lists, 1, "inner")
    operator = HashJoin(spec_of(one, one, 1, "inner"))
    with pytest.raises(PortError, match="before the build port has ended") as early:
        operator.add(PROBE, one.to_batches()[0])
    with pytest.raises(PortError, match="port 2 does not exist"):
        operator.add(2, one.to_batches()[0])
    operator.end_port(BUILD)
    with pytest.raises(PortError, match="port 0 has ended"):
        operator.add(BUILD, one.to_batches()[0])
    with pytest.raises(PortError, match="has not ended"):
        operator.finish()
    with pytest.raises(StateMismatch, match="cannot merge state") as mismatch:
        operator.merge_state(text.to_batches())
    for caught in (differ, unsupported, early, mismatch):
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_hash_collisions_are_counted_in_slots() -> None:
    from reshape.kernels.key_index import KeyIndex
    from reshape.kernels.keys import KeyColumns

    values = pa.array(["a", "b", "a", "c", "b"])
    keys = KeyColumns([values], 5)
    index = KeyIndex(lambda: np.zeros(5, dtype=np.uint64), keys, exact=False)
    assert len(index) == 3
    assert index.slots.tolist() == [0, 1, 0, 2, 1]
    asked = KeyColumns([pa.array(["c", "x", "a"])], 3)
    assert index.find(lambda: np.zeros(3, dtype=np.uint64), asked).tolist() == [2, -1, 0]

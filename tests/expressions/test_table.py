"""The table, trees and evaluation without a JVM: what is listed, pickled, renumbered, refused."""

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from reshape.expressions.errors import BatchMismatch, EvaluationFailed, NotExact
from reshape.expressions.evaluate import evaluate, filter_batch
from reshape.expressions.listing import page
from reshape.expressions.table import may_raise, table
from reshape.expressions.tree import Call, ColumnRef, Expression, Literal, columns_of, renumbered

INT = pa.int32()
ANSI = (("mode", "ANSI"),)


def remainder(left: Expression, right: Expression) -> Call:
    return Call("Remainder", (left, right), INT, ANSI)


def column(number: int) -> ColumnRef:
    return ColumnRef(number, INT)


def batch(*columns: list[int | None]) -> pa.RecordBatch:
    arrays = [pa.array(values, type=INT) for values in columns]
    return pa.RecordBatch.from_arrays(arrays, names=[f"c{number}" for number in range(len(arrays))])


def test_page_is_up_to_date() -> None:
    assert (Path(__file__).parents[2] / "docs" / "expressions.md").read_text() == page()


def test_every_entry_says_what_it_holds_for() -> None:
    assert all(entry.holds_for and (entry.evaluate is None) != (entry.lazily is None) for entry in table().values())


def test_trees_are_values() -> None:
    tree = Call("And", (Call("IsNotNull", (column(3),), pa.bool_()), Literal(True, pa.bool_())), pa.bool_())
    assert pickle.loads(pickle.dumps(tree)) == tree
    assert hash(tree) == hash(pickle.loads(pickle.dumps(tree)))
    assert columns_of(tree) == {3}
    assert columns_of(renumbered(tree, {3: 0})) == {0}


def test_errors_travel() -> None:
    for error in (NotExact("a", "b"), EvaluationFailed("X", "f", "d"), BatchMismatch("w", "g", "t")):
        assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_filter_takes_null_for_false() -> None:
    positive = Call("GreaterThan", (column(0), Literal(0, INT)), pa.bool_())
    assert filter_batch(positive, batch([1, None, -1, 2])).column(0).to_pylist() == [1, 2]
    whole = batch([1, 2])
    assert filter_batch(positive, whole) is whole
    assert filter_batch(Literal(None, pa.bool_()), whole).num_rows == 0
    assert filter_batch(Literal(True, pa.bool_()), whole).num_rows == 2


def test_constants_fill_the_batch() -> None:
    assert evaluate(Literal(7, INT), batch([1, 2])).to_pylist() == [7, 7]
    assert evaluate(Literal(None, pa.string()), batch([1, 2])).type == pa.string()


def test_empty_batches() -> None:
    empty = batch([], [])
    guarded = Call("If", (Literal(True, pa.bool_()), remainder(column(0), column(1)), Literal(1, INT)), INT)
    assert evaluate(guarded, empty).to_pylist() == []
    assert filter_batch(Literal(True, pa.bool_()), empty).num_rows == 0


def test_error_only_for_rows_that_are_reached() -> None:
    rows = batch([5, 6, None], [2, 0, 0])
    quotient = remainder(column(0), column(1))
    assert may_raise(quotient)
    with pytest.raises(EvaluationFailed, match="REMAINDER_BY_ZERO"):
        evaluate(quotient, rows)
    not_zero = Call("Not", (Call("EqualTo", (column(1), Literal(0, INT)), pa.bool_()),), pa.bool_())
    assert evaluate(Call("If", (not_zero, quotient, Literal(-1, INT)), INT), rows).to_pylist() == [1, -1, -1]
    # The divisor is looked at first, and a null dividend is no error.
    assert evaluate(remainder(column(0), column(1)), rows.slice(2, 1)).to_pylist() == [None]


def test_sliced_batches() -> None:
    rows = batch([1, 2, 3, None, 5], [1, 1, 2, 2, 3]).slice(2, 3)
    assert evaluate(remainder(column(0), column(1)), rows).to_pylist() == [1, None, 2]
    kind = pa.decimal128(7, 2)
    decimals = pa.RecordBatch.from_arrays([pa.array([1, 2, None, 4], type=kind).slice(1)], names=["d"])
    doubled = Call("Cast", (ColumnRef(0, kind),), pa.float64(), (("mode", "ANSI"),))
    assert evaluate(doubled, decimals).to_pylist() == [2.0, None, 4.0]


def test_a_batch_of_other_types_is_refused() -> None:
    with pytest.raises(BatchMismatch, match="int32"):
        evaluate(ColumnRef(0, pa.int64()), batch([1]))

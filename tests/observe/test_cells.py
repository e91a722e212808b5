"""Values of results for people and for JSON, whatever they are."""

from __future__ import annotations

import json
from decimal import Decimal

import pyarrow as pa
from rich.console import Console

from reshape.cli.query_view import result_table
from reshape.observe.cells import UNSHOWN, as_json, distinct_names, rows_of, values_of


def test_columns_of_one_name_keep_their_values() -> None:
    table = pa.table([pa.array([1, 2]), pa.array(["a", "b"])], names=["k", "k"])
    assert rows_of(table) == [(1, "a"), (2, "b")]
    assert distinct_names(["k", "k", "k (2)", "k"]) == ["k", "k (3)", "k (2)", "k (4)"]


def test_rows_without_columns_are_counted() -> None:
    assert rows_of(pa.table({"x": [1, 2]}).select([])) == [(), ()]


def test_what_python_has_no_value_for() -> None:
    texts = pa.chunked_array([pa.array([b"\xffA", None, b"ok"]).view(pa.string())])
    assert values_of(texts) == ["\ufffdA", None, "ok"]
    late = pa.array([2**62, None, 0], pa.timestamp("us"))
    assert values_of(late)[:2] == [UNSHOWN, None]
    lists = pa.array([[b"\xff"], None], pa.list_(pa.binary())).view(pa.list_(pa.string()))
    assert values_of(lists) == [UNSHOWN, None]


def test_json_has_all_of_it() -> None:
    value = {1: [float("nan"), float("inf"), -float("inf"), 0.5], "b": b"ab", "d": Decimal("1.50"), "n": (None, True)}
    expected = {"1": ["NaN", "Infinity", "-Infinity", 0.5], "b": "YWI=", "d": "1.50", "n": [None, True]}
    assert json.loads(json.dumps(as_json(value), allow_nan=False)) == expected


def test_a_table_in_a_terminal_keeps_columns_of_one_name_apart() -> None:
    table = pa.table([pa.array([1]), pa.array([22]), pa.array([333])], names=["k", "k", "z"])
    console = Console(width=60)
    with console.capture() as said:
        console.print(result_table(table, 5, 60))
    assert said.get().split() == ["k", "k", "z", "1", "22", "333"]

"""Functions of groups in every form that PySpark takes, without Spark."""

import datetime as dt
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from reshape.operators.aggregates.of_rows import OfRows
from reshape.operators.errors import GroupFunctionFailed
from reshape.operators.group_by import GroupBy, GroupBySpec
from reshape.operators.group_map import GroupMap, GroupMapSpec
from reshape.plan.group_functions import Conversion, Form, UserGroupFunction, UserValueFunction, ValueForm

MOMENT = dt.datetime(2024, 2, 29, 23, 30, tzinfo=dt.UTC)
ROWS = pa.record_batch(
    {
        "k": pa.array([1, 2, 1, None]),
        "s": pa.array(["a", "b", None, "d"]),
        "m": pa.array([MOMENT] * 4, pa.timestamp("us", tz="UTC")),
    }
)
SCHEMA = StructType([StructField("s", StringType()), StructField("k", LongType()), StructField("m", TimestampType())])
WANTED = pa.schema([("s", pa.string()), ("k", pa.int64()), ("m", pa.timestamp("us", tz="UTC"))])
CONVERSION = Conversion("America/New_York", safe=False, by_name=True, int_to_decimal=False, nullable_integers=False)


def same_frame(frame: pd.DataFrame) -> pd.DataFrame:
    return frame


def keyed_frame(key: tuple[Any, ...], frame: pd.DataFrame) -> pd.DataFrame:
    # The wall clock of the session, not of UTC.
    assert frame["m"].iloc[0].hour == 18
    return frame.assign(k=key[0])


def frames(parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for part in parts:
        yield part
        yield part.head(0)


def same_table(rows: pa.Table) -> pa.Table:
    return rows.select(["m", "s", "k"])


def keyed_parts(key: tuple[pa.Scalar, ...], parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for part in parts:
        assert set(part.column("k").to_pylist()) == {key[0].as_py()}
        yield part


@pytest.mark.parametrize(
    ("form", "function"),
    [
        (Form.PANDAS, same_frame),
        (Form.PANDAS, keyed_frame),
        (Form.PANDAS_PARTS, frames),
        (Form.ARROW, same_table),
        (Form.ARROW_PARTS, keyed_parts),
    ],
)
def test_every_form_gives_the_rows_that_it_got(form: Form, function: Callable[..., Any]) -> None:
    made = UserGroupFunction(function, form, (0,), SCHEMA, CONVERSION)
    spec: GroupMapSpec = pickle.loads(pickle.dumps(GroupMapSpec(ROWS.schema, (0,), made, WANTED)))
    operator = GroupMap(spec)
    operator.add(0, ROWS)
    operator.end_port(0)
    out = pa.Table.from_batches(operator.finish())
    assert out.schema.equals(WANTED)
    assert sorted(out.column("s").to_pylist(), key=str) == [None, "a", "b", "d"]
    assert sorted(out.column("k").to_pylist(), key=str) == [1, 1, 2, None]
    assert set(out.column("m").to_pylist()) == {MOMENT}


@pytest.mark.parametrize(
    ("form", "function"),
    [
        (Form.PANDAS, lambda frame: frame[["k"]]),
        (Form.PANDAS, lambda frame: 7),
        (Form.ARROW, lambda rows: rows.select(["k", "s"])),
        (Form.ARROW, lambda rows: rows.to_pandas()),
    ],
)
def test_what_was_not_promised_is_refused_as_pyspark_does(form: Form, function: Callable[..., Any]) -> None:
    made = UserGroupFunction(function, form, (0,), SCHEMA, CONVERSION)
    operator = GroupMap(GroupMapSpec(ROWS.schema, (0,), made, WANTED, "applyInPandas(mine)"))
    operator.add(0, ROWS)
    assert operator.preview(5) is None
    operator.end_port(0)
    with pytest.raises(
        GroupFunctionFailed, match=r"apply: applyInPandas\(mine\) failed for a group: PySpark"
    ) as caught:
        list(operator.finish())
    assert isinstance(caught.value.__cause__, PySparkException)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def longest(texts: pd.Series, moments: pd.Series) -> str:
    assert moments.iloc[0].hour == 18
    return max(texts.dropna(), key=len, default="")


def longest_of_parts(parts: Iterator[tuple[pd.Series, pd.Series]]) -> str:
    return "".join(longest(*part) for part in parts)


def arrow_longest(texts: pa.Array, moments: pa.Array) -> pa.Scalar:
    return max(texts.drop_null().to_pylist(), key=len, default="")


def arrow_longest_of_parts(parts: Iterator[tuple[pa.Array, pa.Array]]) -> pa.Scalar:
    return "".join(arrow_longest(*part) for part in parts)


@pytest.mark.parametrize(
    ("form", "function"),
    [
        (ValueForm.PANDAS, longest),
        (ValueForm.PANDAS_PARTS, longest_of_parts),
        (ValueForm.ARROW, arrow_longest),
        (ValueForm.ARROW_PARTS, arrow_longest_of_parts),
    ],
)
def test_a_function_that_gives_one_value_is_an_aggregate(form: ValueForm, function: Callable[..., Any]) -> None:
    made = UserValueFunction(function, form, StringType(), CONVERSION)
    aggregate = OfRows("x", (1, 2), made, pa.string(), "longest")
    assert aggregate.text(["s", "m"]) == "longest(s, m)"
    owner, helper = (GroupBy(GroupBySpec(ROWS.schema, (0,), (aggregate,)), scattered=one) for one in (False, True))
    owner.add(0, ROWS.slice(0, 2))
    helper.add(0, ROWS.slice(2))
    owner.merge_state(helper.export_scattered())
    owner.end_port(0)
    out = pa.Table.from_batches(owner.finish())
    assert sorted(out.to_pylist(), key=str) == [{"k": 1, "x": "a"}, {"k": 2, "x": "b"}, {"k": None, "x": "d"}]
    failing = OfRows(
        "x", (1,), UserValueFunction(lambda s: s.nothing, form, StringType(), CONVERSION), pa.string(), "f"
    )
    operator = GroupBy(GroupBySpec(ROWS.schema, (), (failing,)))
    operator.add(0, ROWS)
    operator.end_port(0)
    with pytest.raises(GroupFunctionFailed, match="group-by: f failed for a group: AttributeError"):
        list(operator.finish())

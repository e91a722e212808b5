"""Columns and tables that are hard to get right: few values that repeat, nulls, NaN, a heavy hitter."""

from __future__ import annotations

import datetime as dt
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

KEY_TYPES: dict[str, pa.DataType] = {
    "int": pa.int32(),
    "long": pa.int64(),
    "string": pa.string(),
    "decimal": pa.decimal128(20, 3),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "double": pa.float64(),
    "short": pa.int16(),
    "float": pa.float32(),
}
VALUE_TYPES: tuple[pa.DataType, ...] = (pa.int32(), pa.int64(), pa.float64(), pa.decimal128(12, 2))

# Values at the edges of each type; keys take these and then ordinary ones.
EDGES: dict[pa.DataType, list[Any]] = {
    pa.int32(): [0, -1, 2**31 - 1, -(2**31)],
    pa.int64(): [0, -1, 2**63 - 1, -(2**63)],
    pa.string(): ["", "a", "A", "a\x00", "ß", "straße", "日本語", "😀", "\uffff", "\U0010ffff", " ", "x" * 70],
    pa.date32(): [dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(9999, 12, 31)],
    pa.timestamp("us", tz="UTC"): [
        dt.datetime(2024, 2, 29, 12, 0, 0, 1, dt.UTC),
        dt.datetime(1960, 1, 1, tzinfo=dt.UTC),
        dt.datetime(2024, 11, 3, 8, 30, tzinfo=dt.UTC),  # an hour that clocks in America show twice
        dt.datetime(2024, 11, 3, 9, 30, tzinfo=dt.UTC),
    ],
    pa.binary(): [b"", b"\x00", b"\xff\x00", b"\x7f", b"0123456789abcdef"],
    pa.bool_(): [True, False],
    pa.float64(): [0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, 5e-324],
    pa.float32(): [0.0, -0.0, math.nan, math.inf, 1.5],
    pa.decimal128(20, 3): [Decimal(0), Decimal("-12345678901234567.891"), Decimal("1.500")],
    pa.int16(): [0, -1, 2**15 - 1, -(2**15)],
}


@dataclass(frozen=True, slots=True)
class Column:
    """``is_key``: has edge values and can be compared. ``exact``: does not depend on the order of additions.
    ``determined_by``: within equal values of these columns there is only one value."""

    name: str
    type: pa.DataType
    is_key: bool = False
    exact: bool = True
    determined_by: tuple[str, ...] = ()

    @property
    def comparable(self) -> bool:
        return self.exact and not pat.is_nested(self.type)

    @property
    def summable(self) -> bool:
        number = pat.is_integer(self.type) or pat.is_floating(self.type) or pat.is_decimal(self.type)
        return number and not self.is_key

    def __str__(self) -> str:
        return f"{self.name}: {self.type}{' key' if self.is_key else ''}"


@dataclass(frozen=True, slots=True)
class Input:
    """A table to be made. ``hitter`` is the share of rows that have one and the same key, which may be null."""

    seed: int
    rows: int
    columns: tuple[Column, ...]
    values: int  # different values of a key column
    nulls: float
    hitter: float
    like: int | None = None  # rows of this earlier input are mixed in, for set operations to find

    def __str__(self) -> str:
        shape = f"{self.rows} rows, {self.values} values, {self.nulls:.0%} null, hitter {self.hitter:.0%}"
        like = "" if self.like is None else f", half of them of input {self.like}"
        return f"{shape}{like}: {', '.join(map(str, self.columns))}"


def make(data: Input, earlier: Sequence[pa.Table]) -> pa.Table:
    """The table that an input describes."""
    rng = np.random.default_rng([data.seed, data.rows])
    hot = rng.random(data.rows) < data.hitter
    hot_is_null = bool(rng.random() < 0.15)
    arrays: dict[str, pa.Array] = {}
    for column in data.columns:
        if column.determined_by:
            arrays[column.name] = _determined([arrays[name] for name in column.determined_by])
        elif column.is_key:
            pool = _pool(column.type, data.values)
            chosen = rng.integers(0, len(pool), data.rows)
            chosen[hot] = rng.integers(0, len(pool))
            absent = rng.random(data.rows) < data.nulls
            absent[hot] = hot_is_null
            arrays[column.name] = pa.array(
                [None if a else pool[c] for a, c in zip(absent, chosen, strict=True)], column.type
            )
        else:
            arrays[column.name] = _amounts(column.type, data.rows, data.nulls, rng)
    table = pa.table(arrays, schema=pa.schema([(column.name, column.type) for column in data.columns]))
    if data.like is None or not earlier[data.like].num_rows:
        return table
    other = earlier[data.like].rename_columns(table.schema.names).cast(table.schema)
    taken = other.take(rng.integers(0, other.num_rows, data.rows // 2))
    return pa.concat_tables([table.slice(0, data.rows - taken.num_rows), taken]).combine_chunks()


def _pool(kind: pa.DataType, size: int) -> list[Any]:
    """The first values of a type: half of them its edges as long as there are some, then ordinary ones."""
    edges = EDGES.get(kind, [])
    if pat.is_boolean(kind):
        return edges[:size]
    edges = edges[: (size + 1) // 2]
    return edges + [_ordinary(kind, number) for number in range(size - len(edges))]


def _ordinary(kind: pa.DataType, number: int) -> Any:
    if pat.is_integer(kind):
        return number * 3 - 20
    if pat.is_floating(kind):
        return number / 8 - 4
    if pat.is_decimal(kind):
        return Decimal(number * 5 - 60).scaleb(-min(kind.scale, 2))
    if pat.is_date(kind):
        return dt.date(2023, 12, 25) + dt.timedelta(days=number)
    if pat.is_timestamp(kind):
        return dt.datetime(2024, 3, 10, tzinfo=dt.UTC) + dt.timedelta(minutes=37 * number)
    text = f"wörd-{number}" if number % 3 else f"{number}"
    return text.encode() if pat.is_binary(kind) else text


def _amounts(kind: pa.DataType, rows: int, nulls: float, rng: np.random.Generator) -> pa.Array:
    """Numbers whose sums fit: what a group-by adds up."""
    values: list[Any]
    if pat.is_floating(kind):
        values = [
            float(value)
            for value in np.where(rng.random(rows) < 0.5, rng.integers(-80, 80, rows) / 8, rng.normal(0, 99, rows))
        ]
    elif pat.is_decimal(kind):
        values = [Decimal(int(value)).scaleb(-kind.scale) for value in rng.integers(-90_000, 90_000, rows)]
    else:
        values = rng.integers(-500, 500, rows).tolist()
    absent = rng.random(rows) < nulls
    return pa.array([None if a else value for a, value in zip(absent, values, strict=True)], kind)


def _determined(keys: Sequence[pa.Array]) -> pa.Array:
    """A word for each key, sometimes null; always null when a part of the key is, as it is behind an outer join."""
    words: list[str | None] = []
    for values in zip(*(key.to_pylist() for key in keys), strict=True):
        code = zlib.crc32(repr([value + 0.0 if isinstance(value, float) else value for value in values]).encode())
        words.append(None if None in values or code % 5 == 0 else f"of-{code % 1000}")
    return pa.array(words, pa.string())

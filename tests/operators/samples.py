"""Rows that are hard to get right, and a comparison that does not care for their order."""

import datetime as dt
import decimal
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from functools import cmp_to_key
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from reshape.kernels.ordering import Ordering
from reshape.operators.base import Operator

NAN = float("nan")
HASHES_LIKE_NULL = -6884282663029611473  # the one long that does
WORDS = [
    "",
    "a",
    "A",
    "ab",
    "b",
    "ß",
    "straße",
    "日本",
    "日本語",
    "😀",
    "\U0010ffff",
    "\uffff",
    "x" * 9,
    "x" * 200,
    "a\x00",
]

# Few values of each kind, so that keys repeat; the first is the heavy hitter.
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "long": (pa.int64(), [7, -1, 0, 2**63 - 1, -(2**63), 12]),
    "int": (pa.int32(), [7, -1, 0, 2**31 - 1]),
    "short": (pa.int16(), [7, -1, 0]),
    "byte": (pa.int8(), [7, -1, 0]),
    "double": (pa.float64(), [0.0, -0.0, NAN, math.inf, -math.inf, 1.5, -2.25]),
    "float": (pa.float32(), [0.0, -0.0, NAN, math.inf, 0.1]),
    "string": (pa.string(), WORDS),
    "binary": (pa.binary(), [b"\xff\x00", b"", b"\x00", b"\x7f", b"0123456789abcdef"]),
    "boolean": (pa.bool_(), [True, False]),
    "decimal": (pa.decimal128(20, 3), [decimal.Decimal(v) for v in ("1.500", "0.000", "-12345678901234567.891")]),
    "date": (pa.date32(), [dt.date(2024, 2, 29), dt.date(1969, 12, 31), dt.date(9999, 12, 31)]),
    "timestamp": (
        pa.timestamp("us", tz="UTC"),
        [dt.datetime(2024, 2, 29, 12, 0, 0, 1, dt.UTC), dt.datetime(1960, 1, 1, tzinfo=dt.UTC)],
    ),
}


def column(kind: str, rows: int, rng: np.random.Generator, nulls: float = 0.15, hitter: float = 0.4) -> pa.Array:
    """Random values of a kind, with nulls and a heavy hitter."""
    arrow_type, values = VALUES[kind]
    chosen = rng.integers(0, len(values), rows)
    chosen[rng.random(rows) < hitter] = 0
    absent = rng.random(rows) < nulls
    return pa.array([None if a else values[c] for a, c in zip(absent, chosen, strict=True)], type=arrow_type)


def table(kinds: dict[str, str], rows: int, seed: int, **options: float) -> pa.Table:
    """Columns by name and kind, and nothing else."""
    rng = np.random.default_rng(seed)
    return pa.table({name: column(kind, rows, rng, **options) for name, kind in kinds.items()})


def plain(value: Any) -> Any:
    """Comparable and hashable: NaN is one value, zero has no sign."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple((key, plain(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return tuple(plain(item) for item in value)
    return value


def rows_of(data: pa.Table | Iterable[pa.RecordBatch]) -> Counter[tuple[Any, ...]]:
    """How often each row appears."""
    return Counter(listed(data))


def listed(data: pa.Table | Iterable[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    """The rows in their order."""
    found: list[tuple[Any, ...]] = []
    for batch in data.to_batches() if isinstance(data, pa.Table) else data:
        found += zip(*map(_plain_values, batch.columns), strict=True)
    return found


def _plain_values(column: pa.Array) -> list[Any]:
    values: list[Any] = column.to_pylist()
    kind = column.type
    is_changed = pa.types.is_floating(kind) or pa.types.is_nested(kind) or pa.types.is_dictionary(kind)
    return list(map(plain, values)) if is_changed else values


def compare(a: Any, b: Any) -> int:
    """Spark's order of two values that are not null."""
    if isinstance(a, str | bytes) and a != "NaN" and b != "NaN":
        a, b = (value.encode() if isinstance(value, str) else value for value in (a, b))
    elif "NaN" in (a, b) and not (isinstance(a, str) and isinstance(b, str)):
        return 1 if a == "NaN" else -1
    return int(a > b) - int(a < b)


def in_order(data: pa.Table, ordering: Ordering) -> list[tuple[Any, ...]]:
    """Python's stable sort with Spark's comparison, key by key from the last one."""
    rows = listed(data)
    for key in reversed(ordering.keys):
        values = sorted({row[key.column] for row in rows} - {None}, key=cmp_to_key(compare), reverse=not key.ascending)
        places: dict[Any, int] = {value: place for place, value in enumerate(values)}
        places[None] = -1 if key.nulls_first else len(values)
        rows.sort(key=lambda row, at=key.column, places=places: places[row[at]])  # type: ignore[misc]
    return rows


def batches_of(data: pa.Table, rows: int) -> Iterator[pa.RecordBatch]:
    """Slices of one block, so that arrays have offsets; at least one batch, which may be empty."""
    whole = data.combine_chunks()
    block = (whole.to_batches() or [pa.RecordBatch.from_pylist([], schema=data.schema)])[0]
    for start in range(0, max(len(whole), 1), rows):
        yield block.slice(start, rows)


def feed(operator: Any, port: int, data: pa.Table, rows: int = 100) -> list[pa.RecordBatch]:
    """All rows through a port, and its end."""
    out: list[pa.RecordBatch] = []
    for batch in batches_of(data, rows):
        out += operator.add(port, batch)
    return out + list(operator.end_port(port))


def over_the_wire(batches: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """What arrives of batches that are sent: each in a stream of its own, without its metadata."""
    arrived = []
    for batch in batches:
        bare = batch.replace_schema_metadata(None)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, bare.schema) as writer:
            writer.write_batch(bare)
        arrived += list(pa.ipc.open_stream(sink.getvalue()))
    return arrived


def rows_held(operator: Operator) -> int:
    """Rows (groups, for a group-by) of its state, as another object would get them; the operator keeps them."""
    return sum(batch.num_rows for batch in deepcopy(operator).export_state(None, remove=True))


def hypothesis_rows(kinds: dict[str, str], largest: int = 40) -> st.SearchStrategy[pa.Table]:
    """Tables for Hypothesis."""

    def made(rows: Sequence[tuple[Any, ...]]) -> pa.Table:
        arrays = [pa.array([row[i] for row in rows], type=VALUES[kind][0]) for i, kind in enumerate(kinds.values())]
        return pa.table(dict(zip(kinds, arrays, strict=True)))

    values = [st.one_of(st.none(), st.sampled_from(VALUES[kind][1])) for kind in kinds.values()]
    return st.lists(st.tuples(*values), max_size=largest).map(made)


def same_hash(modulus: int) -> Callable[[Sequence[pa.Array]], Any]:
    """A hash so bad that most keys collide."""
    from reshape.kernels.hashing import hash_rows

    return lambda columns: hash_rows(columns) % np.uint64(modulus)

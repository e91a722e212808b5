"""Tables for `versus_spark.py`: made once from seeds, written as Parquet, reused while they are complete.

Sales of 9 columns whose two keys follow a law (even, Zipf, heavy hitters, nulls), their dimensions, a list of files in
order of time with a third of them in one directory, rows of wide strings, rows for a costly function, and TPC-DS's
web_sales with keys drawn anew, which needs ``tpcgen-cli``. One file is made at a time: memory does not grow with rows.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession

from reshape.datasets import tpc
from reshape.datasets.tpc_tables import FIRST_DATE
from reshape.datasets.tpcgen import table_file

# Tables of another version are not read; raise it when what is made changes.
VERSION = 1
FILES, GROUPS = 8, 3  # files of a large table, row groups in each
DAYS = 1_826
TPCDS_SALES = 720_000  # rows of web_sales at scale 1
# The file list's share of the rows asked for: 7.3 million beside 3 million sales. Wide rows: ten times as wide.
FILE_LIST, WIDE = 7.3 / 3, 1 / 6
# Rows for a function of so many microseconds: about six seconds of CPU time each at 3 million rows.
KEYED = {5: 1 / 5, 20: 1 / 10, 100: 1 / 50}

Ints = npt.NDArray[np.int64]
Rng = np.random.Generator


@dataclass(frozen=True, slots=True)
class Law:
    """How keys are drawn: Zipf's exponent, so many hitters with a share of the rows each, a share without a key."""

    exponent: float = 0.0
    hitters: int = 0
    share: float = 0.0
    nulls: float = 0.0


LAWS = {
    "even": Law(),
    "zipf0.8": Law(0.8),
    "zipf1.2": Law(1.2),
    "five5": Law(hitters=5, share=0.05),
    "one30": Law(hitters=1, share=0.30),
    "nulls20": Law(nulls=0.20),
}


class Store:
    """A folder of tables for one number of rows."""

    def __init__(self, folder: Path, rows: int) -> None:
        self._folder = folder / f"v{VERSION}-{rows}"
        self.rows = rows
        self.items = min(18_000, max(200, rows // 20))
        self.customers = max(1_000, rows * 2 // 3)

    def read(self, spark: SparkSession, name: str) -> DataFrame:
        return spark.read.parquet(self.path(name).as_uri())

    def path(self, name: str) -> Path:
        """The folder of a table, made now unless it is there."""
        home = self._folder / name
        if not home.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            # Made apart and moved when complete: an interrupted run leaves nothing behind that looks like a table.
            making = Path(tempfile.mkdtemp(dir=self._folder, prefix=".making-"))
            try:
                for number, table in enumerate(self._maker(name)):
                    group = -(-table.num_rows // GROUPS)
                    parquet.write_table(table, making / f"part-{number:04}.parquet", row_group_size=max(1, group))
                os.replace(making, home)
            except BaseException:
                shutil.rmtree(making, ignore_errors=True)
                raise
        return home

    def _maker(self, name: str) -> Iterator[pa.Table]:
        kind, _, law = name.partition("-")
        simple: dict[str, Callable[[], Iterator[pa.Table]]] = {
            "items": self._items,
            "offers": self._offers,
            "customers": self._customers,
            "days": self._days,
            "files": self._files,
            "wide": self._wide,
            "labels": self._labels,
        }
        if kind in simple:
            return simple[kind]()
        if kind == "sales":
            return self._sales(LAWS[law])
        if kind == "keyed":
            return self._keyed(*law.split("-"))
        if kind == "tpcds":
            return self._tpcds(law)
        raise ValueError(f"there is no table {name!r}")

    @cached_property
    def _item_keys(self) -> Ints:
        """Items by rank. The dimension lacks those of the last ranks, so that an outer join has both remainders."""
        keys = np.random.default_rng(11).permutation(np.arange(self._foreign + 1, self.items + 1))
        return np.concatenate([keys, np.arange(1, self._foreign + 1)])

    @cached_property
    def _customer_keys(self) -> Ints:
        return np.random.default_rng(12).permutation(np.arange(1, self.customers + 1))

    @property
    def _foreign(self) -> int:
        return self.items // 18

    def _sales(self, law: Law) -> Iterator[pa.Table]:
        channels = pa.array(["web", "store", "catalog", "phone", "market place"])
        for first, rows, rng in _pieces("sales", self.rows):
            yield pa.table(
                {
                    "order": np.arange(first, first + rows),
                    "item": _drawn(rng, law, self._item_keys, rows),
                    "customer": _drawn(rng, law, self._customer_keys, rows),
                    "day": rng.integers(0, DAYS, rows, dtype=np.int32),
                    "quantity": rng.integers(1, 101, rows, dtype=np.int32),
                    "price": _decimals(rng.integers(1, 100_000, rows)),
                    "discount": rng.random(rows),
                    "channel": channels.take(pa.array(rng.integers(0, len(channels), rows))),
                    "sold_at": _times(rng.integers(0, DAYS * 86_400_000, rows) * 1_000),
                }
            )

    def _items(self) -> Iterator[pa.Table]:
        keys = np.arange(self._foreign + 1, self.items + self._foreign + 1)
        rng = _rng("items", 0)
        yield pa.table(
            {
                "item": keys.astype(np.int32),
                "category": _words("category ", keys % 10),
                "brand": _words("brand number ", rng.integers(0, 500, len(keys))),
                "item_name": _words("an item of the catalogue with the number ", keys),
                "cost": _decimals(rng.integers(1, 50_000, len(keys))),
            }
        )

    def _offers(self) -> Iterator[pa.Table]:
        """Three for each item: what joins with them has three times the rows of the sales."""
        keys = np.tile(np.arange(1, self.items + 1), 3)
        yield pa.table({"item": keys.astype(np.int32), "offer": _words("offer ", np.arange(len(keys)))})

    def _customers(self) -> Iterator[pa.Table]:
        """Too large to broadcast at full size: two million rows, 17 MB of what joins read by Spark's estimate."""
        for first, rows, rng in _pieces("customers", self.customers, files=4):
            keys = self._customer_keys[first : first + rows]
            yield pa.table(
                {
                    "customer": keys.astype(np.int32),
                    "segment": _words("segment of customers ", keys % 40),
                    "city": _words("city ", rng.integers(0, 5_000, rows)),
                    "email": _words("customer.", keys, "@example.org"),
                }
            )

    def _days(self) -> Iterator[pa.Table]:
        days = np.arange(DAYS)
        yield pa.table({"day": days.astype(np.int32), "month": _words("month ", days // 30), "weekday": days % 7})

    def _files(self) -> Iterator[pa.Table]:
        """In order of time, as a walk over logs or a listing by date gives them."""
        total = int(self.rows * FILE_LIST)
        folders = max(50, total // 100)
        step = 5 * 365 * 86_400_000_000 // max(1, total)
        for first, rows, rng in _pieces("files", total):
            folder = np.where(rng.random(rows) < 1 / 3, 0, rng.integers(1, folders, rows))
            numbers = np.arange(first, first + rows)
            yield pa.table(
                {
                    "directory": _words("/srv/archive/projects/shared/d", folder),
                    "name": _words("IMG_", numbers * 7_919 % 10_000_019, ".jpeg"),
                    "size": (rng.pareto(1.1, rows) * 4_096).clip(0, 1e12).astype(np.int64),
                    "mtime": _times(numbers * step + rng.integers(0, step, rows)),
                }
            )

    def _wide(self) -> Iterator[pa.Table]:
        letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz      ", dtype="S1")
        for _, rows, rng in _pieces("wide", int(self.rows * WIDE)):
            columns: dict[str, object] = {"k": _drawn(rng, LAWS["zipf1.2"], self._item_keys, rows)}
            for name, width in (("title", 40), ("body", 240), ("address", 80), ("comment", 120)):
                texts = rng.choice(letters, (4_096, width)).view(f"S{width}").ravel().tolist()
                pool = pa.array([text.decode() for text in texts])
                columns[name] = pool.take(pa.array(rng.integers(0, len(pool), rows)))
            columns["note"] = _words("note ", rng.integers(0, 1 << 40, rows))
            yield pa.table(columns)

    def _labels(self) -> Iterator[pa.Table]:
        keys = np.sort(self._item_keys)
        yield pa.table({"k": keys.astype(np.int32), "label": _words("a label of some forty characters, number ", keys)})

    def _keyed(self, us: str, shape: str) -> Iterator[pa.Table]:
        law = Law(hitters=1, share=0.5) if shape == "hot50" else Law()
        keys = np.arange(1_000)
        for first, rows, rng in _pieces("keyed", max(1_000, int(self.rows * KEYED[int(us)]))):
            yield pa.table({"k": _drawn(rng, law, keys, rows), "v": np.arange(first, first + rows)})

    def _tpcds(self, name: str) -> Iterator[pa.Table]:
        """TPC-DS as `tpcgen-cli` makes it, in scale with the rows; sales get the skewed keys of DSB."""
        scale = max(0.01, round(self.rows / TPCDS_SALES, 2))
        home = self._folder.parent / "tpcgen"
        table = parquet.read_table(table_file(home, "tpcds", scale, name))
        if name != "web_sales":
            yield table
            return
        counts = {each: parquet.read_metadata(table_file(home, "tpcds", scale, each)) for each in ("item", "customer")}
        laws = {
            "ws_sold_date_sk": (tpc.DATE_EXPONENT, FIRST_DATE + np.arange(tpc.DATES)),
            "ws_item_sk": (tpc.ITEM_EXPONENT, 1 + np.arange(counts["item"].num_rows)),
            "ws_bill_customer_sk": (tpc.CUSTOMER_EXPONENT, 1 + np.arange(counts["customer"].num_rows)),
        }
        for column, (exponent, keys) in laws.items():
            rng = _rng(column, 0)
            drawn = _drawn(rng, Law(exponent), rng.permutation(keys), table.num_rows)
            kept = pc.if_else(pc.is_valid(table[column].combine_chunks()), drawn, None).cast(table[column].type)
            table = table.set_column(table.column_names.index(column), column, kept)
        piece = -(-table.num_rows // FILES)
        yield from (table.slice(first, piece) for first in range(0, table.num_rows, piece))


def _pieces(table: str, rows: int, files: int = FILES) -> Iterator[tuple[int, int, Rng]]:
    """First row, number of rows and the random numbers of each file. Many rows get more files, not larger ones."""
    files = max(files, -(-rows // 2_000_000))
    edges = np.linspace(0, rows, files + 1).astype(int).tolist()
    for number, (first, after) in enumerate(pairwise(edges)):
        yield first, after - first, _rng(table, number)


def _rng(table: str, number: int) -> Rng:
    return np.random.default_rng([crc32(table.encode()), number])


def _drawn(rng: Rng, law: Law, keys: Ints, rows: int) -> pa.Array:
    """Keys of this law as int32; the first keys are the frequent ones."""
    if law.exponent:
        ranks = np.searchsorted(_cumulative(len(keys), law.exponent), rng.random(rows))
    else:
        ranks = rng.integers(0, len(keys), rows)
    if law.hitters:
        place = (rng.random(rows) / law.share).astype(np.int64)
        ranks = np.where(place < law.hitters, place, ranks)
    without = rng.random(rows) < law.nulls if law.nulls else None
    return pa.array(keys[np.minimum(ranks, len(keys) - 1)].astype(np.int32), mask=without)


@lru_cache(maxsize=4)
def _cumulative(keys: int, exponent: float) -> npt.NDArray[np.float64]:
    weights = np.arange(1, keys + 1, dtype=np.float64) ** -exponent
    summed: npt.NDArray[np.float64] = np.cumsum(weights) / weights.sum()
    return summed


def _words(before: str, numbers: Ints, after: str = "") -> pa.Array:
    return pc.binary_join_element_wise(before, pa.array(numbers).cast(pa.string()), after, "")


def _decimals(cents: Ints) -> pa.Array:
    """decimal(7, 2), from its two words of 64 bits: no Python object for a row."""
    words = np.zeros((len(cents), 2), dtype=np.int64)
    words[:, 0] = cents
    return pa.Array.from_buffers(pa.decimal128(7, 2), len(cents), [None, pa.py_buffer(words)])


def _times(microseconds: Ints) -> pa.Array:
    start = 1_577_836_800_000_000  # 2020-01-01
    return pa.array(microseconds + start).cast(pa.timestamp("us", tz="UTC"))

"""CPU seconds per million rows of every operator's kernels, without Spark, an exchange or a second thread.

Two tables: sales (whole-number keys, Zipf's law and five keys of 5 % each, decimals, dates, short strings) and a list
of files (a directory that has a third of the rows, about 100,000 others). Rows come in batches as from senders.
The best of several rounds counts: what else the machine does can only add to it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from reshape.exchange.router import HashPartitioner, Router
from reshape.kernels.hashing import hash_rows
from reshape.kernels.ordering import Ordering, SortKey
from reshape.operators.aggregates.counts import CountAll, CountDistinct
from reshape.operators.aggregates.extremes import Max, Min
from reshape.operators.aggregates.lists import CollectList, Median
from reshape.operators.aggregates.sums import Mean, Sum
from reshape.operators.group_by import GroupBySpec, GroupCombiner
from reshape.operators.hash_join import JoinSpec, OutputColumn
from reshape.operators.range_bounds import RangeBounds
from reshape.operators.sort import SortSpec

BATCH_ROWS = 16_384
HOT_KEYS = 5
HOT_SHARE = 0.05
CUSTOMERS = 100_000
ITEMS = 18_000
FOLDERS = 100_000

Case = Callable[[], Any]


def sales(rows: int) -> pa.Table:
    """Customers by Zipf's law with five that are hot besides, and what they bought."""
    rng = np.random.default_rng(1)
    customers = rng.zipf(1.2, rows) % CUSTOMERS
    hot = rng.random(rows)
    for number in range(HOT_KEYS):
        customers[(hot >= number * HOT_SHARE) & (hot < (number + 1) * HOT_SHARE)] = 1_000 + number
    cents = pa.array(rng.integers(0, 100_000, rows)).cast(pa.decimal128(19, 0))
    words = np.array([f"brand-{number % 997:03d}" for number in range(ITEMS)])
    items = rng.integers(0, ITEMS, rows)
    return pa.table(
        {
            "customer": pa.array(customers.astype(np.int64)),
            "item": pa.array(items.astype(np.int64)),
            "price": pa.Array.from_buffers(pa.decimal128(7, 2), rows, cents.buffers()),
            "quantity": pa.array(rng.integers(1, 100, rows, dtype=np.int32)),
            "day": pa.array(rng.integers(10_000, 11_800, rows, dtype=np.int32)).cast(pa.date32()),
            "brand": pa.array(words[items]),
            "ticket": pa.array(rng.integers(0, 2**40, rows)),
        }
    )


def files(rows: int) -> pa.Table:
    """Files by directory, one of which has a third of them."""
    rng = np.random.default_rng(2)
    folders = rng.zipf(1.1, rows) % FOLDERS
    folders[rng.random(rows) < 1 / 3] = 4_711
    paths = pa.array([f"/srv/data/{number % 31}/project-{number}" for number in range(FOLDERS)])
    names = pa.array([f"part-{number:05d}.parquet" for number in range(50_000)])
    return pa.table(
        {
            "folder": paths.take(pa.array(folders)),
            "name": names.take(pa.array(rng.integers(0, len(names), rows))),
            "size": pa.array((rng.lognormal(8, 3, rows)).astype(np.int64)),
        }
    )


def batches(table: pa.Table, rows: int = BATCH_ROWS) -> list[pa.RecordBatch]:
    """Batches of their own memory, as they come over a wire."""
    return [pa.concat_batches([batch]) for batch in table.combine_chunks().to_batches(max_chunksize=rows)]


def through(spec: Any, *ports: Iterable[pa.RecordBatch]) -> Case:
    """All rows through an operator, to its last output batch."""

    def run() -> None:
        operator = spec.build()
        for port, inputs in enumerate(ports):
            for batch in inputs:
                for _ in operator.add(port, batch):
                    pass
            for _ in operator.end_port(port):
                pass
        for _ in operator.finish():
            pass

    return run


def each(function: Callable[[pa.RecordBatch], Any], inputs: Iterable[pa.RecordBatch]) -> Case:
    def run() -> None:
        for batch in inputs:
            function(batch)

    return run


def group_by_cases(bought: pa.Table, listed: pa.Table) -> dict[str, tuple[int, Case]]:
    sold, found = batches(bought), batches(listed)
    wide_sold, wide_found = batches(bought, 65_536), batches(listed, 65_536)

    def grouped(table: pa.Table, keys: tuple[int, ...], *aggregates: Any) -> GroupBySpec:
        return GroupBySpec(table.schema, keys, aggregates)

    n, m = len(bought), len(listed)
    counted = grouped(listed, (0,), CountAll("n"))
    summed = grouped(bought, (0,), CountAll("n"), Sum("s", 3), Sum("p", 2))
    return {
        "count by int64": (n, through(grouped(bought, (0,), CountAll("n")), sold)),
        "count by date": (n, through(grouped(bought, (4,), CountAll("n")), sold)),
        "count by string": (m, through(counted, found)),
        "count by two keys": (n, through(grouped(bought, (4, 5), CountAll("n")), sold)),
        "count by unique int64": (n, through(grouped(bought, (6,), CountAll("n")), sold)),
        "sum of int32 and decimal": (n, through(summed, sold)),
        "sum of int64 by string": (m, through(grouped(listed, (0,), Sum("s", 2)), found)),
        "mean, min, max by int64": (
            n,
            through(grouped(bought, (0,), Mean("a", 3), Min("b", 3), Max("c", 3)), sold),
        ),
        "combine: count by string": (m, each(GroupCombiner(counted).combine, wide_found)),
        "combine: sums by int64": (n, each(GroupCombiner(summed).combine, wide_sold)),
        "count distinct int64 by int64": (n, through(grouped(bought, (0,), CountDistinct("d", (1,))), sold)),
        "count distinct string by string": (m, through(grouped(listed, (0,), CountDistinct("d", (1,))), found)),
        "median of int64 by string": (m, through(grouped(listed, (0,), Median("m", 2)), found)),
        "median of decimal by int64": (n, through(grouped(bought, (0,), Median("m", 2)), sold)),
        "collect_list of string by string": (m, through(grouped(listed, (0,), CollectList("l", 1)), found)),
    }


def other_cases(bought: pa.Table, listed: pa.Table) -> dict[str, tuple[int, Case]]:
    sold, found = batches(bought), batches(listed)
    n, m = len(bought), len(listed)
    pairs, names = bought.select([0, 1]), listed.select([0, 1])
    many_keys = Ordering((SortKey(4), SortKey(5), SortKey.descending(3)))
    customers = pa.table(
        {
            "id": pa.array(np.random.default_rng(3).permutation(CUSTOMERS)),
            **{f"c{i}": pa.array(np.arange(CUSTOMERS) * i) for i in range(4)},
            "name": pa.array([f"customer number {i}" for i in range(CUSTOMERS)]),
        }
    )
    folders = listed.group_by("folder").aggregate([("size", "max")])
    by_id = _join(bought.schema, customers.schema, 0, 0)
    by_path = _join(listed.schema, folders.schema, 0, 0)
    router = Router(HashPartitioner((0,), 8), [0] * 4 + [1] * 4, lambda host, batch, envelope: None)
    by_folder = Router(HashPartitioner((0,), 8), [0] * 4 + [1] * 4, lambda host, batch, envelope: None)
    bounds = RangeBounds.from_sample(bought.slice(0, 5_000).combine_chunks().to_batches()[0], many_keys, 16)
    return {
        "distinct of two int64": (n, through(GroupBySpec(pairs.schema, (0, 1), ()), batches(pairs))),
        "distinct of two strings": (m, through(GroupBySpec(names.schema, (0, 1), ()), batches(names))),
        "sort by int64": (n, through(SortSpec(bought.schema, Ordering((SortKey(6),))), sold)),
        "sort by three keys": (n, through(SortSpec(bought.schema, many_keys), sold)),
        "sort by string": (m, through(SortSpec(listed.schema, Ordering((SortKey(0),))), found)),
        "join with 100,000 int64": (n, through(by_id, batches(customers), sold)),
        "join with 100,000 strings": (m, through(by_path, batches(folders), found)),
        "hash of int64": (n, each(lambda batch: hash_rows([batch.column(0)]), sold)),
        "hash of string": (m, each(lambda batch: hash_rows([batch.column(0)]), found)),
        "route by int64, 7 columns": (n, each(router.route, sold)),
        "route by string, 3 columns": (m, each(by_folder.route, found)),
        "range of three keys": (n, each(bounds.partition, sold)),
    }


def join_cases(rows: int) -> dict[str, tuple[int, Case]]:
    """Probe rows of four columns; build rows that carry few or many columns, with keys close together or far apart."""
    rng = np.random.default_rng(4)
    cases: dict[str, tuple[int, Case]] = {}
    for size in (18_000, 1_000_000):
        for spread, factor in (("near", 1), ("far", 1_000_003)):
            keys = rng.permutation(size) * factor
            probe = pa.table(
                {
                    "key": keys[rng.integers(0, size, rows)],
                    **{f"p{i}": rng.integers(0, 1 << 40, rows) for i in range(3)},
                }
            )
            for columns in (2, 9):
                build = pa.table({"key": keys, **{f"b{i}": np.arange(size) * i for i in range(columns)}})
                spec = _join(probe.schema, build.schema, 0, 0)
                name = f"probe {size:,} {spread} keys, {columns} columns"
                cases[name] = (rows, probing(spec, batches(build), batches(probe, 65_536)))
    return cases


def probing(spec: JoinSpec, build: Iterable[pa.RecordBatch], probe: Iterable[pa.RecordBatch]) -> Case:
    """The probe side alone; the build side is there, and indexed."""
    operator = spec.build()
    for batch in build:
        operator.add(0, batch)
    for _ in operator.end_port(0):
        pass
    for _ in operator.add(1, next(iter(probe)).slice(0, 1)):
        pass

    def run() -> None:
        for batch in probe:
            for _ in operator.add(1, batch):
                pass

    return run


def _join(left: pa.Schema, right: pa.Schema, left_key: int, right_key: int) -> JoinSpec:
    output = [OutputColumn(name, left=i) for i, name in enumerate(left.names)]
    output += [OutputColumn(name, right=i) for i, name in enumerate(right.names) if i != right_key]
    return JoinSpec(left, right, (left_key,), (right_key,), "inner", tuple(output))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, one round")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", metavar="WORD", default="", help="cases with this word in their name")
    parser.add_argument("--json", metavar="FILE", help="write the results to a file as well")
    arguments = parser.parse_args()
    less = 10 if arguments.quick else 1
    pa.set_cpu_count(1)
    bought, listed = sales(3_000_000 // less), files(7_300_000 // less)
    results = []
    print(f"{'':36} {'CPU s per M rows':>16} {'M rows/s':>9}")
    cases = {**group_by_cases(bought, listed), **other_cases(bought, listed), **join_cases(1_000_000 // less)}
    for name, (rows, case) in cases.items():
        if arguments.only not in name:
            continue
        runs = []
        for _ in range(1 if arguments.quick else arguments.repeats):
            began = time.process_time()
            case()
            runs.append((time.process_time() - began) * 1e6 / rows)
        print(f"{name:36} {min(runs):16.4f} {1 / min(runs):9.1f}", flush=True)
        results.append({"case": name, "rows": rows, "cpu_s_per_million_rows": runs})
    if arguments.json:
        Path(arguments.json).write_text(json.dumps({"benchmark": "kernels", "results": results}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())

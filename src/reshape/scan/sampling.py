"""A small sample of a scan's rows from all over its files, for whoever has to know them before they are read.

Each host samples its share of the splits. All of them take the same part of their rows, so that samples of all hosts
together stand for the whole input, however the files are ordered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from reshape.kernels.columns import Indices
from reshape.scan.narrowing import narrowed
from reshape.scan.opening import OpenFile, opened
from reshape.scan.reading import steps_of, stored_rows
from reshape.scan.row_groups import groups_between, groups_to_read
from reshape.scan.scan import Scan, Split
from reshape.scan.steps import Steps

# Of each host, about: enough for bounds within some percent of even ranges.
SAMPLE_ROWS = 2_000
# Above this many hosts samples need not grow: some hundred rows for each range of a sort.
_MOST_HOSTS = 8
# Rows are chosen before filters are applied, which may leave few of them.
_MORE_FOR_FILTERS = 4
# What a host opens and decodes at the most. Of two million rows a key of whole numbers takes some 60 ms of CPU time, a
# key of different strings twice that.
_MOST_GROUPS = 32
_MOST_STORED_ROWS = 2_000_000
# A key that is too heavy for one worker shows in fewer rows, and most inputs with keys have none.
HEAVY_KEY_ROWS = 262_144
_BATCH_ROWS = 262_144
# The same sample each time.
_SEED = 20


def sample(
    scan: Scan, outputs: Sequence[int], host: int, hosts: int, most_stored_rows: int | None = None
) -> pa.RecordBatch:
    """These output columns of rows that are evenly spread over this host's share of the splits. So many stored rows are
    decoded, about, but one row group at least."""
    most_stored_rows = _MOST_STORED_ROWS if most_stored_rows is None else most_stored_rows
    narrow = narrowed(scan, outputs)
    share = scan.splits[host::hosts]
    chosen = _chosen(share, most_stored_rows)
    rows = _wanted_rows(scan, share, hosts)
    weights = [_weight(split) for split in chosen]
    groups = max(1, _MOST_GROUPS // max(1, len(chosen)))
    most_rows = most_stored_rows // max(1, len(chosen))
    # Whole rows for each split, their sum without an error that grows.
    marks = np.rint(np.cumsum([0, *weights]) * (rows / max(1, sum(weights)))).astype(np.int64)
    steps = steps_of(narrow)
    parts = [narrow.schema.empty_table().combine_chunks()]
    for split, wanted in zip(chosen, np.diff(marks).tolist(), strict=True):
        if wanted:
            parts.append(
                pa.Table.from_batches(_split_sample(narrow, steps, split, wanted, groups, most_rows), narrow.schema)
            )
    batches = pa.concat_tables(parts).combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], narrow.schema)


def _weight(split: Split) -> int:
    """Rows where they were counted; else bytes say the same. Footers are read for all splits of a scan or for none."""
    return max(1, split.length if split.rows is None else split.rows)


def _wanted_rows(scan: Scan, share: Sequence[Split], hosts: int) -> float:
    """The part of the whole sample that falls to a share."""
    in_all = SAMPLE_ROWS * min(hosts, _MOST_HOSTS, len(scan.splits)) * (1 if scan.row_by_row else _MORE_FOR_FILTERS)
    return float(in_all * sum(map(_weight, share)) / max(1, sum(map(_weight, scan.splits))))


def _chosen(share: Sequence[Split], most_stored_rows: int) -> list[Split]:
    """Evenly spaced splits of a share, as many as may be read."""
    stored = sum(split.rows or 0 for split in share)
    count = min(len(share), _MOST_GROUPS)
    if stored > most_stored_rows:
        count = min(count, max(1, len(share) * most_stored_rows // stored))
    return [share[number] for number in _spread(count, len(share)).tolist()]


def _split_sample(
    scan: Scan, steps: Steps, split: Split, wanted: int, most_groups: int, most_rows: int
) -> Iterator[pa.RecordBatch]:
    with opened(scan, split) as parquet:
        groups = groups_between(parquet.metadata, split.start, split.end)
        held = _rows_of(parquet, groups)
        groups = groups_to_read(parquet.metadata, groups, scan, parquet.stored)
        # Groups that no row comes from have their part of the sample too: it is empty.
        wanted = -(-wanted * _rows_of(parquet, groups) // max(1, held))
        most_groups = min(most_groups, max(1, len(groups) * most_rows // max(1, _rows_of(parquet, groups))))
        groups = [groups[number] for number in _spread(min(most_groups, len(groups)), len(groups)).tolist()]
        places = _scattered(wanted, _rows_of(parquet, groups))
        begin = 0
        for batch in stored_rows(scan, split, parquet, groups, _BATCH_ROWS):
            first, last = np.searchsorted(places, [begin, begin + batch.num_rows])
            if last > first:
                yield from steps.of(batch.take(pa.array(places[first:last] - begin)))
            begin += batch.num_rows


def _rows_of(parquet: OpenFile, groups: Sequence[int]) -> int:
    return sum(parquet.metadata.row_group(group).num_rows for group in groups)


def _scattered(count: int, size: int) -> Indices:
    """So many places below `size`, one anywhere in each equal part: rhythms in the rows have no say."""
    count = min(count, size)
    edges = np.arange(count + 1, dtype=np.int64) * size // max(1, count)
    within = np.random.default_rng(_SEED).random(count) * np.diff(edges)
    return edges[:-1] + within.astype(np.int64)


def _spread(count: int, size: int) -> Indices:
    """So many of the numbers below `size`, at most all of them, each in the middle of its share."""
    count = min(count, size)
    return (2 * np.arange(count, dtype=np.int64) + 1) * size // (2 * max(1, count))

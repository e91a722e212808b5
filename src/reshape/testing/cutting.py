"""Tables cut into partitions and batches, as sources of a flow that threads run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

Partitions = Sequence[Sequence[pa.RecordBatch]]

# How often a partition ends with an empty batch, as Spark's do now and then.
_EMPTY_BATCHES = 0.3


@dataclass(frozen=True, slots=True)
class Cut:
    """How the rows of every source are cut: partitions of random length, batches of up to so many rows."""

    seed: int = 0
    partitions: int = 4
    batch_rows: int = 500


def cut_up(table: pa.Table, rng: np.random.Generator, cut: Cut) -> Partitions:
    """Partitions of random lengths, some empty or of empty batches; all batches are slices of one block."""
    block = (table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], table.schema)])[0]
    edges = np.sort(rng.integers(0, block.num_rows + 1, cut.partitions - 1))
    bounds = [0, *edges.tolist(), block.num_rows]
    partitions: list[list[pa.RecordBatch]] = []
    for start, end in pairwise(bounds):
        batches: list[pa.RecordBatch] = []
        at = start
        while at < end:
            rows = min(int(rng.integers(0, cut.batch_rows + 1)), end - at)
            batches.append(block.slice(at, rows))
            at += rows
        if rng.random() < _EMPTY_BATCHES:
            batches.append(block.slice(end, 0))
        partitions.append(batches)
    return partitions

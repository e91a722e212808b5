"""How many rows of a file fit one batch: rows may be a few bytes wide, or megabytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reshape.scan.opening import OpenFile

# Several batches are in memory for each reader. 65,536 rows of 60 columns of numbers are as many bytes.
_BATCH_BYTES = 32 * 1024 * 1024

# A dictionary has each text once, however many rows have it: what these take in memory is known when some were read.
_PROBED_ROWS = 256


def fitting_rows(parquet: OpenFile, groups: Sequence[int], most: int) -> int:
    """How many rows of these row groups a batch may have, at most `most`; at least one, however wide it is."""
    if sum(parquet.metadata.row_group(group).num_rows for group in groups) <= _PROBED_ROWS:
        return most
    width = max(_stored_width(parquet, group) for group in groups)
    texts = _texts_in_dictionaries(parquet, groups)
    if texts:
        width = max(width, _read_width(parquet, groups, texts))
    return max(1, min(most, int(_BATCH_BYTES // width))) if width else most


def _stored_width(parquet: OpenFile, group: int) -> float:
    """Bytes of a row before compression, as far as the footer says; less than in memory where dictionaries are used."""
    stored = parquet.metadata.row_group(group)
    leaves = [leaf for column in parquet.stored for leaf in column.leaves]
    width: float = sum(stored.column(leaf).total_uncompressed_size for leaf in leaves) / max(stored.num_rows, 1)
    return width


def _texts_in_dictionaries(parquet: OpenFile, groups: Sequence[int]) -> list[str]:
    paths = []
    for column in parquet.stored:
        for path, leaf in zip(column.paths, column.leaves, strict=True):
            chunks = (parquet.metadata.row_group(group).column(leaf) for group in groups)
            if any(chunk.physical_type == "BYTE_ARRAY" and chunk.has_dictionary_page for chunk in chunks):
                paths.append(path)
    return paths


def _read_width(parquet: OpenFile, groups: Sequence[int], paths: list[str]) -> float:
    """Bytes of a row in memory, of the first rows."""
    batches: Any = parquet.file.iter_batches(_PROBED_ROWS, row_groups=list(groups), columns=paths, use_threads=False)
    for batch in batches:
        return float(batch.nbytes) / batch.num_rows if batch.num_rows else 0.0
    return 0.0

"""The footers of a scan's files, looked at before a flow starts: what Arrow cannot read is then left to Spark."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from reshape.scan.errors import NotReadable, SplitChanged, SplitUnreadable
from reshape.scan.opening import opened
from reshape.scan.row_groups import middle_byte
from reshape.scan.scan import Scan, Split

# Footers wait for disks more than for cores.
_READERS = 8


@dataclass(frozen=True, slots=True)
class _Footer:
    """Of each row group, the byte that decides its split, and its rows."""

    groups: tuple[tuple[int, int], ...]

    def rows_between(self, start: int, end: int) -> int:
        return sum(rows for middle, rows in self.groups if start <= middle < end)


def with_footers(scan: Scan, most: int) -> Scan:
    """The scan with its splits' rows counted. Raises NotReadable for the first file that Arrow cannot read exactly."""
    splits = list({split.path: split for split in scan.splits}.values())
    looked_at = _evenly(splits, most)
    with ThreadPoolExecutor(_READERS, thread_name_prefix="footers") as readers:
        footers = list(readers.map(lambda split: _footer(scan, split), looked_at))
    footer_of = {split.path: footer for split, footer in zip(looked_at, footers, strict=True)}
    return replace(scan, splits=tuple(_counted(split, footer_of.get(split.path)) for split in scan.splits))


def _evenly(splits: Sequence[Split], most: int) -> Sequence[Split]:
    if len(splits) <= most:
        return splits
    return [splits[number * len(splits) // most] for number in range(most)]


def _counted(split: Split, footer: _Footer | None) -> Split:
    return split if footer is None else replace(split, rows=footer.rows_between(split.start, split.end))


def _footer(scan: Scan, split: Split) -> _Footer:
    try:
        with opened(scan, split) as parquet:
            groups = map(parquet.metadata.row_group, range(parquet.metadata.num_row_groups))
            return _Footer(tuple((middle_byte(group), group.num_rows) for group in groups))
    except SplitChanged as error:
        raise NotReadable(str(error)) from error
    except SplitUnreadable as error:
        raise NotReadable(f"{error.path}: {error.reason}") from error

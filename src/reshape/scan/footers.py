"""The footers of a scan's files, looked at before a flow starts: what Arrow cannot read is then left to Spark."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from reshape.scan.errors import NotReadable, SplitChanged, SplitUnreadable
from reshape.scan.opening import opened
from reshape.scan.row_groups import middle_byte
from reshape.scan.scan import LookUp, Scan, Split

# Footers wait for disks more than for cores.
_READERS = 8
# A piece takes a host some tens of milliseconds to read; opening its file takes about one.
_PIECE_ROWS = 4 * 65_536


@dataclass(frozen=True, slots=True)
class _Footer:
    """Of each row group, the byte that decides its split, and its rows."""

    groups: tuple[tuple[int, int], ...]


def with_footers(scan: Scan, most: int) -> Scan:
    """The scan with its splits' rows counted. Raises NotReadable for the first file that Arrow cannot read exactly."""
    steps = list(scan.steps)
    for number, step in enumerate(steps):
        if isinstance(step, LookUp):
            steps[number] = replace(step, scan=with_footers(step.scan, most))
    scan = replace(scan, steps=tuple(steps))
    splits = list({split.path: split for split in scan.splits}.values())
    if len(splits) > most:
        raise NotReadable(f"it has {len(splits):,} files, more than the {most:,} whose footers are looked at")
    with ThreadPoolExecutor(_READERS, thread_name_prefix="footers") as readers:
        footers = list(readers.map(lambda split: _footer(scan, split), splits))
    footer_of = {split.path: footer for split, footer in zip(splits, footers, strict=True)}
    pieces = [piece for split in scan.splits for piece in _pieces(split, footer_of[split.path])]
    return replace(scan, splits=tuple(pieces))


def _pieces(split: Split, footer: _Footer) -> Iterator[Split]:
    """A split cut between row groups: small pieces are dealt out evenly, and early results stand for more files."""
    groups = [(middle, rows) for middle, rows in footer.groups if split.start <= middle < split.end]
    start, rows_so_far = split.start, 0
    for number, (middle, rows) in enumerate(groups):
        rows_so_far += rows
        if rows_so_far >= _PIECE_ROWS and number + 1 < len(groups):
            end = middle + 1
            yield replace(split, start=start, length=end - start, rows=rows_so_far)
            start, rows_so_far = end, 0
    yield replace(split, start=start, length=split.end - start, rows=rows_so_far)


def _footer(scan: Scan, split: Split) -> _Footer:
    try:
        with opened(scan, split) as parquet:
            groups = map(parquet.metadata.row_group, range(parquet.metadata.num_row_groups))
            return _Footer(tuple((middle_byte(group), group.num_rows) for group in groups))
    except SplitChanged as error:
        raise NotReadable(str(error)) from error
    except SplitUnreadable as error:
        raise NotReadable(f"{error.path}: {error.reason}") from error

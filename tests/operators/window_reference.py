"""Windows computed row by row, slowly and plainly: what the operator has to give."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import cache, cmp_to_key, partial, reduce
from operator import add
from typing import Any

import pyarrow as pa

from reshape.kernels.ordering import SortKey
from reshape.operators.window import WindowSpec
from reshape.operators.windows.description import WindowFunction
from reshape.operators.windows.extremes import Max, Min
from reshape.operators.windows.frame import Frame
from reshape.operators.windows.ranks import CumeDist, DenseRank, NTile, PercentRank, Rank, RowNumber
from reshape.operators.windows.sums import Count, Mean, Sum
from reshape.operators.windows.values import NthValue, Shifted

from .samples import compare, in_order, listed, plain

Row = tuple[Any, ...]
Frames = list[tuple[int, int]]

EXACT = Context(prec=100, rounding=ROUND_HALF_UP)


def windows_of(spec: WindowSpec, data: pa.Table) -> list[Row]:
    """The rows with the values of all functions."""
    rows = listed(data) if spec.ordering is None else in_order(data, spec.ordering)
    partitions: dict[Row, list[Row]] = defaultdict(list)
    for row in rows:
        partitions[tuple(row[key] for key in spec.keys)].append(row)
    order = () if spec.ordering is None else spec.ordering.columns
    out = []
    for members in partitions.values():
        peers = [tuple(row[column] for column in order) for row in members]
        frames = cache(partial(_frames, peers, spec))  # most functions of a spec have the same
        columns = [_values(function, members, peers, frames, spec) for function in spec.functions]
        out += [(*row, *map(plain, values)) for row, *values in zip(members, *columns, strict=True)]
    return out


def _values(
    function: WindowFunction, rows: list[Row], peers: list[Row], frames: Callable[[Frame], Frames], spec: WindowSpec
) -> list[Any]:
    size = len(rows)
    match function:
        case RowNumber():
            return list(range(1, size + 1))
        case Rank():
            return [peers.index(peer) + 1 for peer in peers]
        case DenseRank():
            return [len(set(peers[: peers.index(peer) + 1])) for peer in peers]
        case PercentRank():
            return [peers.index(peer) / (size - 1) if size > 1 else 0.0 for peer in peers]
        case CumeDist():
            return [(peers.index(peer) + peers.count(peer)) / size for peer in peers]
        case NTile(buckets=buckets):
            sizes = [size // buckets + (number < size % buckets) for number in range(buckets)]
            return [number + 1 for number, count in enumerate(sizes) for _ in range(count)]
        case Shifted():
            return [_shifted(function, rows, i) for i in range(size)]
        case NthValue() | Count() | Sum() | Mean() | Min() | Max():
            values = [row if function.column is None else row[function.column] for row in rows]
            of_frames = {(a, b): _of_frame(function, values[a:b], spec) for a, b in set(frames(function.frame))}
            return [of_frames[frame] for frame in frames(function.frame)]
    raise AssertionError(function)


def _frames(peers: list[Row], spec: WindowSpec, frame: Frame) -> Frames:
    """Which rows are in the frame of each row; that of a range is the same for all peers."""
    if frame.unit == "rows":
        return [_frame(frame, peers, i, spec) for i in range(len(peers))]
    ranges = {peer: _frame(frame, peers, peers.index(peer), spec) for peer in set(peers)}
    return [ranges[peer] for peer in peers]


def _frame(frame: Frame, peers: list[Row], i: int, spec: WindowSpec) -> tuple[int, int]:
    size = len(peers)
    if frame.unit == "range" and (frame.lower or frame.upper) and peers[i][0] is not None:
        assert spec.ordering is not None
        inside = [j for j in range(size) if _is_near(frame, peers[i][0], peers[j][0], spec.ordering.keys[0])]
        return (inside[0], inside[-1] + 1) if inside else (0, 0)
    if frame.unit == "range":
        low = 0 if frame.lower is None else peers.index(peers[i])
        high = size if frame.upper is None else peers.index(peers[i]) + peers.count(peers[i])
        return low, high
    low = 0 if frame.lower is None else min(max(i + int(frame.lower), 0), size)
    high = size if frame.upper is None else min(max(i + int(frame.upper) + 1, 0), size)
    return low, max(low, high)


def _is_near(frame: Frame, mine: Any, other: Any, key: SortKey) -> bool:
    """Whether another row's value is in the frame; null is beyond all others, on the side where nulls are."""
    if other is None:
        return (frame.lower if key.nulls_first else frame.upper) is None
    ahead = 1 if key.ascending else -1
    for bound, side in ((frame.lower, ahead), (frame.upper, -ahead)):
        if bound is not None:
            limit = float(mine) + bound * ahead if isinstance(mine, str | float) else mine + bound * ahead
            if compare(other, plain(limit)) * side < 0:
                return False
    return True


def _shifted(function: Shifted, rows: list[Row], i: int) -> Any:
    default = function.filler if function.filler_column is None else rows[i][function.filler_column]
    if not function.ignore_nulls:
        at = i + function.offset
        return rows[at][function.column] if 0 <= at < len(rows) else default
    side = rows[i + 1 :] if function.offset > 0 else rows[:i][::-1]
    values = [row[function.column] for row in side if row[function.column] is not None]
    return values[abs(function.offset) - 1] if len(values) >= abs(function.offset) else default


def _of_frame(function: Any, values: Sequence[Any], spec: WindowSpec) -> Any:
    present = [value for value in values if value is not None]
    match function:
        case NthValue():
            some = present if function.ignore_nulls else values
            at = function.n - 1 if function.n > 0 else len(some) + function.n
            return some[at] if 0 <= at < len(some) else None
        case Count():
            return len(present)
    if not present:
        return None
    if isinstance(function, Min | Max):
        best = cmp_to_key(compare)
        return min(present, key=best) if isinstance(function, Min) else max(present, key=best)
    kind = spec.schema.field(function.column).type
    if isinstance(function, Sum):
        return _added(present, kind)
    if not pa.types.is_decimal(kind):
        return _added([float(value) for value in present], pa.float64()) / len(present)
    unit = Decimal(1).scaleb(-function.output_type([spec.schema.field(function.column)]).scale)
    if function.by_doubles:
        digits = [float(int(value.scaleb(kind.scale))) for value in present]
        return Decimal(repr(_added(digits, pa.float64()) / len(present) / 10.0**kind.scale)).quantize(
            unit, ROUND_HALF_UP
        )
    return EXACT.divide(_added(present, kind), Decimal(len(present))).quantize(unit, context=EXACT)


def _added(values: Sequence[Any], kind: pa.DataType) -> Any:
    if pa.types.is_decimal(kind):
        return reduce(EXACT.add, values)
    # Rows have "NaN" for what does not equal itself.
    return reduce(add, map(float, values), 0.0) if pa.types.is_floating(kind) else sum(values)

"""Sums and means of decimals over frames: exact in whole numbers, and rounded where Spark rounds."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reshape.kernels.columns import Indices
from reshape.kernels.hashing import U64, Mask, fixed_words, validity
from reshape.operators.aggregates.sums import EvalMode, SumOfIntegers
from reshape.operators.aggregates.wide_integers import carried, decimals, extended
from reshape.operators.errors import OutOfRange
from reshape.operators.windows.description import OPERATOR, WindowFunction
from reshape.operators.windows.frame import FrameRows, Windows

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_OVERFLOW = 2**63

# More than any sum of 38-digit decimals has, so that a mean is rounded once, where Spark rounds it.
_EXACT = Context(prec=100, rounding=ROUND_HALF_UP)

# A double has 53 bits; three operations on the way leave an error of this part of the number at most.
_ERROR = 2.0**-50


def decimal_sums(
    function: WindowFunction,
    column: pa.Array,
    frames: FrameRows,
    windows: Windows,
    absent: Mask,
    logic: SumOfIntegers,
) -> pa.Array:
    """The sum of each frame in the type of Spark's sum; what does not fit is an error or null, as the mode says."""
    words = fixed_words(column)
    assert words is not None
    valid = validity(column)
    if valid is not None:
        words = tuple(np.where(valid, word, np.uint64(0)) for word in words)
    state = logic.state_types[0]
    sums = decimals(_sums(function, words, frames, windows)[: state.bit_width // 64], state, absent)
    try:
        return logic.finish([sums])
    except OutOfRange as error:
        raise OutOfRange(OPERATOR, error.aggregate, error.column, error.type_name) from None


def decimal_means(sums: pa.Array, counts: Indices, kind: pa.DataType, mode: EvalMode, name: str) -> pa.Array:
    """Sums over counts, rounded half up. Where a sum does not fit there is no mean either."""
    valid = validity(sums)
    shown = (np.ones(len(sums), dtype=np.bool_) if valid is None else valid) & (counts > 0)
    factor = 10 ** (kind.scale - sums.type.scale)
    words = fixed_words(sums)
    assert words is not None
    low, high = (word.view(np.int64) for word in words)
    # Twice the sum and the count besides have to fit 64 bits.
    small = (high == low >> 63) & (np.abs(low) < _OVERFLOW // (4 * factor))
    scaled = np.abs(np.where(small & shown, low, 0)) * factor
    over = np.maximum(counts, 1)
    means = (2 * scaled + over) // (2 * over)
    signed = np.where(low < 0, -means, means)
    result = decimals([signed.view(np.uint64), (signed >> 63).view(np.uint64)], kind, ~shown)
    rows = np.flatnonzero(shown & ~small)
    return _with(result, rows, _exact_means(sums, counts, rows, kind, mode, name)) if len(rows) else result


def means_by_doubles(means: npt.NDArray[np.float64], absent: Mask, kind: pa.DataType) -> pa.Array:
    """Doubles as decimals of at most 15 digits: the shortest text of the double, rounded half up.

    Only where a half is near does it matter how the text ends.
    """
    scaled = np.abs(np.where(absent, 0.0, means)) * 10.0**kind.scale
    whole = np.floor(scaled)
    near = np.abs(scaled - whole - 0.5) <= scaled * _ERROR + 1e-9
    digits = (whole + (scaled - whole > 0.5)).astype(np.int64)
    signed = np.where(means < 0, -digits, digits)
    result = decimals([signed.view(np.uint64), (signed >> 63).view(np.uint64)], kind, absent)
    rows = np.flatnonzero(near & ~absent)
    unit = Decimal(1).scaleb(-kind.scale)
    return _with(result, rows, [_EXACT.quantize(Decimal(repr(mean)), unit) for mean in means[rows].tolist()])


def _sums(function: WindowFunction, words: tuple[U64, ...], frames: FrameRows, windows: Windows) -> list[U64]:
    """Sums in four words, by differences of running sums."""
    low = words[0].view(np.int64)
    # Other stretches may have larger numbers.
    if not windows.carries(frames) and np.array_equal(words[1].view(np.int64), low >> 63):
        largest = max(abs(int(low.max(initial=0))), abs(int(low.min(initial=0))))
        if largest * len(low) < _OVERFLOW:
            return extended([windows.sums(function, low, frames).view(np.uint64)], 4)
    limbs = [part.view(np.int64) for word in words for part in (word & _LOW, word >> _HALF)]
    limbs[-1] = words[-1].view(np.int64) >> np.int64(32)  # the highest limb carries the sign
    return extended(carried([windows.sums((function, n), limb, frames) for n, limb in enumerate(limbs)]), 4)


def _exact_means(
    sums: pa.Array, counts: Indices, rows: Indices, kind: pa.DataType, mode: EvalMode, name: str
) -> list[Decimal | None]:
    """Means of sums that are too large for 64 bits, one by one."""
    unit = Decimal(1).scaleb(-kind.scale)
    beyond = Decimal(1).scaleb(kind.precision - kind.scale)
    means: list[Decimal | None] = []
    for total, count in zip(sums.take(pa.array(rows)).to_pylist(), counts[rows].tolist(), strict=True):
        mean = _EXACT.quantize(_EXACT.divide(total, Decimal(count)), unit)
        if abs(mean) >= beyond and mode == EvalMode.ANSI:
            raise OutOfRange(OPERATOR, "avg", name, str(kind))
        means.append(mean if abs(mean) < beyond else None)
    return means


def _with(array: pa.Array, rows: Indices, values: list[Decimal | None] | list[Decimal]) -> pa.Array:
    """The array with other values at these rows."""
    if not len(rows):
        return array
    places = np.arange(len(array), dtype=np.int64)
    places[rows] = len(array) + np.arange(len(rows))
    return pa.concat_arrays([array, pa.array(values, type=array.type)]).take(pa.array(places))

"""Exact sums of 64-, 128- and 256-bit integers over groups, in two's complement words (the lowest first).

A sum that is kept exact has no order: it overflows, or not, whichever worker added which rows first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reshape.kernels.hashing import U64, Mask
from reshape.operators.aggregates.base import Groups

_LOW = np.int64(0xFFFFFFFF)
_HALF = np.int64(32)

# Sums that stay below are exact in 64 bits; almost all do.
_OVERFLOW = 2**63


def grouped_sums(words: Sequence[U64], groups: Groups, width: int) -> list[U64]:
    """The sum of each group in `width` words (two at least)."""
    low = words[0].view(np.int64)
    if all(np.array_equal(word.view(np.int64), low >> 63) for word in words[1:]):
        return extended(_sums_of_longs(low, groups), width)
    limbs = []
    for word in words:
        limbs += [(word & np.uint64(_LOW)).view(np.int64), (word >> np.uint64(32)).view(np.int64)]
    limbs[-1] = words[-1].view(np.int64) >> _HALF  # the highest limb carries the sign
    return extended(carried([_added(limb, groups) for limb in limbs]), width)


def extended(words: Sequence[U64], width: int) -> list[U64]:
    """The same numbers in more words."""
    sign = (words[-1].view(np.int64) >> 63).view(np.uint64)
    return [*words, *([sign] * (width - len(words)))]


def decimals(words: Sequence[U64], kind: pa.DataType, absent: Mask) -> pa.Array:
    """An Arrow decimal array of these numbers."""
    values = np.ascontiguousarray(np.stack(words, axis=1))
    valid = None
    if absent.any():
        valid = pa.py_buffer(np.packbits(~absent, bitorder="little").tobytes())
    return pa.Array.from_buffers(kind, len(absent), [valid, pa.py_buffer(values)])


def _sums_of_longs(values: npt.NDArray[np.int64], groups: Groups) -> list[U64]:
    if not len(values):
        return [np.zeros(groups.count, dtype=np.uint64)] * 2
    largest = max(abs(int(values.max())), abs(int(values.min())))
    if largest * len(values) < _OVERFLOW:
        low = _added(values, groups)
        return [low.view(np.uint64), (low >> 63).view(np.uint64)]
    return carried([_added(values & _LOW, groups), _added(values >> _HALF, groups)])


def _added(values: npt.NDArray[np.int64], groups: Groups) -> npt.NDArray[np.int64]:
    """Sums that are known to fit, as those of numbers of 32 bits do before 2**31 rows."""
    sums = np.zeros(groups.count, dtype=np.int64)
    np.add.at(sums, groups.codes, values)
    return sums


def carried(limbs: list[npt.NDArray[np.int64]]) -> list[U64]:
    """Sums of 32-bit limbs as words, with one limb pair more for what was carried out of the highest."""
    digits, carry = [], np.zeros_like(limbs[0])
    for limb in limbs:
        total = limb + carry
        digits.append(total & _LOW)
        carry = total >> _HALF
    digits += [carry & _LOW, carry >> _HALF]
    return [(low | (high << _HALF)).view(np.uint64) for low, high in zip(digits[::2], digits[1::2], strict=True)]

"""Sort keys as digits: 64-bit words whose order, the first differing word deciding, is Spark's order of rows.

A number is one digit, a decimal two, a string as many as it is long (eight bytes each), and a column with nulls has one
digit more in front. Digits are made when they are needed, for the rows that still need them: most sorts are decided by
the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from reshape.kernels.columns import Indices, as_array
from reshape.kernels.hashing import U64, Mask, UnsupportedKeyType, fixed_words, validity
from reshape.kernels.keys import KeyColumns
from reshape.kernels.ordering import Ordering, SortKey

# The digit of these rows; None for all.
Digit = Callable[[Indices | None], U64]

# Fewer rows are sorted in less time than it takes to look at them first.
_LEAST_PACKED = 1_024
# Keys in runs of so many rows, on the average, are merged in a third of the time of sorting them, or less.
_RUN_ROWS = 1_024
# Of so many values at least half must repeat for all to be worth a rank.
_SAMPLE_ROWS = 8_192

# Of longer texts that are equal so far the rest is ranked as bytes, in blocks twice as long each time: a step of eight
# bytes costs some 20 us whatever the number of rows, and a single text of 1 MB would take 131,072 of them.
_STEPPED_BYTES = 4_096

_SIGN = np.uint64(1 << 63)
_KEPT: U64 = np.array([(1 << (8 * n)) - 1 for n in range(9)], dtype=np.uint64)


def digits_of(columns: Sequence[Any], ordering: Ordering, *, ranked: bool = False) -> Iterator[Digit]:
    """The digits of rows, most significant first; `columns` are those of the keys, in their order.

    `ranked`: strings that repeat may have their rank for a digit, which is worth it when all rows need it.

    Digits of two calls cannot be compared: what a column needs depends on the values it has.
    """
    for column, key in zip(columns, ordering.keys, strict=True):
        yield from _column_digits(_plain(column), key, ranked)


def sorted_order(columns: Sequence[Any], ordering: Ordering) -> Indices:
    """The rows in order; rows with equal keys keep theirs. Sorted runs are merged, also those that nobody made."""
    size = len(columns[0])
    if size < _LEAST_PACKED:
        packed, digits = None, digits_of(columns, ordering)
    else:
        packed, digits = _packed(digits_of(columns, ordering, ranked=True), 64 - size.bit_length())
    if packed is not None:
        first, order, mixed = packed, _order_of_packed(packed), False
    else:
        first = next(digits)(None)
        # A stable sort of NumPy finds runs and merges them. Its other sort is vectorised, three times as fast on random
        # keys, but it mixes equal ones, which are put right at the end.
        mixed = not _in_runs(first)
        order = np.argsort(first, kind=None if mixed else "stable")
    next_digit = next(digits, None)
    if next_digit is None and not mixed:
        return order
    if next_digit is not None:
        digits = chain([next_digit], digits)
    positions, groups = _tied(first[order])
    for digit in digits:
        if not len(positions):
            return order
        mixed = True
        rows = order[positions]
        values = digit(rows)
        within = _order_in_groups(values, groups)
        order[positions] = rows[within]
        still, groups = _tied(values[within], groups)
        positions = positions[still]
    if mixed and len(positions):
        rows = order[positions]
        order[positions] = rows[np.argsort(groups * len(order) + rows)]
    return order


def order_codes(column: Any) -> Indices:
    """Whole numbers in the order of a column's values, equal for equal ones; those of nulls mean nothing."""
    array = _plain(column)
    words = fixed_words(array)
    if words is not None:
        low = words[0].view(np.int64)
        if len(words) > 1 and all(np.array_equal(word.view(np.int64), low >> 63) for word in words[1:]):
            return low  # a decimal of few digits
        if len(words) == 1:
            return (_ordered_words(words, array.type)[0] ^ _SIGN).view(np.int64)
    codes = np.zeros(len(array), dtype=np.int64)
    if len(array):
        order = sorted_order([array], Ordering((SortKey(0),)))
        keys = KeyColumns([array], len(array))
        codes[order[1:]] = np.cumsum(~keys.equal(order[1:], keys, order[:-1]))
    return codes


def _packed(digits: Iterator[Digit], room: int) -> tuple[U64 | None, Iterator[Digit]]:
    """As many digits as fit so many bits, as one; and the others. Most numbers lie close together.

    Of the first digit that does not fit come its highest bits: few rows are equal in these, and it decides among them.
    """
    packed: U64 | None = None
    for digit in digits:
        values = digit(None)
        least = values.min()
        bits = int(values.max() - least).bit_length()
        if bits > room:
            if room:
                high = (values - least) >> np.uint64(bits - room)
                packed = high if packed is None else packed << np.uint64(room) | high
            return packed, chain([digit], digits)
        room -= bits
        packed = values - least if packed is None else packed << np.uint64(bits) | (values - least)
    return packed, iter(())


def _order_of_packed(packed: U64) -> Indices:
    """The order of numbers that leave room for a row number behind them: sorted as such, three times as fast."""
    in_runs = _in_runs(packed)
    if not in_runs and packed.max() < 1 << 16:
        # By radix: another four times as fast.
        return np.argsort(packed.astype(np.uint16), kind="stable")
    bits = np.uint64(len(packed).bit_length())
    numbers = packed << bits
    numbers |= np.arange(len(packed), dtype=np.uint64)
    numbers.sort(kind="stable" if in_runs else None)
    numbers &= (np.uint64(1) << bits) - np.uint64(1)
    return numbers.view(np.int64)


def _in_runs(values: U64) -> bool:
    """Do values lie in few sorted runs, as files by time do? A look takes a hundredth of what sorting them takes."""
    return int(np.count_nonzero(values[1:] < values[:-1])) * _RUN_ROWS < len(values)


def _order_in_groups(values: U64, groups: Indices) -> Indices:
    """Rows by group, those of a group by value. Groups are numbered in order."""
    by_value: Indices = np.argsort(values)
    if groups[0] == groups[-1]:
        return by_value
    found = groups[by_value] - groups[0]
    # NumPy sorts 16-bit numbers by radix.
    narrow = found.astype(np.uint16) if groups[-1] - groups[0] < 1 << 16 else found
    return by_value[np.argsort(narrow, kind="stable")]


def range_ids(columns: Sequence[Any], ordering: Ordering, bounds: int) -> Indices:
    """How many of the first `bounds` rows, which are in order and differ, lie strictly before each of the others."""
    digits = digits_of(columns, ordering)
    first = next(digits, None)
    if first is None:
        return np.zeros(len(columns[0]) - bounds, dtype=np.int64)
    # All rows at once; the others are few, those that equal a bound so far.
    fences, values = np.split(first(None), [bounds])
    low = np.searchsorted(fences, values, side="left")
    open_rows = np.flatnonzero(fences[np.minimum(low, bounds - 1)] == values)
    high = low.copy()
    high[open_rows] = np.searchsorted(fences, values[open_rows], side="right")
    for digit in digits:
        if not len(open_rows):
            break
        fences = digit(np.arange(bounds, dtype=np.int64))
        values = digit(open_rows + bounds)
        begins = low[open_rows]
        # Rows that equal the same bounds so far; at most one round for each bound.
        for begin in np.flatnonzero(np.bincount(begins)):
            chosen = np.flatnonzero(begins == begin)
            rows = open_rows[chosen]
            part, wanted = fences[begin : high[rows[0]]], values[chosen]
            found = np.searchsorted(part, wanted, side="left")
            low[rows] = high[rows] = begin + found
            met = np.flatnonzero(part[np.minimum(found, len(part) - 1)] == wanted)
            high[rows[met]] = begin + np.searchsorted(part, wanted[met], side="right")
        open_rows = open_rows[low[open_rows] < high[open_rows]]
    return low


def _tied(values: U64, groups: Indices | None = None) -> tuple[Indices, Indices]:
    """Positions of sorted values that equal a neighbour (of their group), and a number for each run of equal ones."""
    same = values[1:] == values[:-1]
    if groups is not None:
        same &= groups[1:] == groups[:-1]
    if not same.any():
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    tied = np.zeros(len(values), dtype=np.bool_)
    tied[1:] = same
    tied[:-1] |= same
    numbers = np.zeros(len(values), dtype=np.int64)
    np.cumsum(~same, out=numbers[1:])
    positions = np.flatnonzero(tied)
    return positions, numbers[positions]


def _column_digits(array: pa.Array, key: SortKey, ranked: bool) -> Iterator[Digit]:
    valid = validity(array)
    if valid is not None:
        yield _plain_digit((valid if key.nulls_first else ~valid).astype(np.uint64))
    if pat.is_null(array.type):
        return
    if pat.is_struct(array.type):
        # Inside a struct null is the smallest value, whatever is said about nulls outside.
        inner = SortKey(0, key.ascending, nulls_first=key.ascending)
        for child in array.flatten():
            yield from _column_digits(_plain(child), inner, ranked)
        return
    words = fixed_words(array)
    if words is not None:
        digits: Iterator[Digit] = map(_plain_digit, _ordered_words(words, array.type))
    else:
        digits = _bytes_or_ranks(array, valid) if ranked else _byte_digits(array, valid)
    for digit in digits:
        yield _adjusted(digit, valid, inverted=not key.ascending)


def _adjusted(digit: Digit, valid: Mask | None, *, inverted: bool) -> Digit:
    """The digit for the direction; the same for all nulls, whatever memory holds there."""
    if valid is None and not inverted:
        return digit

    def adjusted(rows: Indices | None) -> U64:
        values = digit(rows)
        if inverted:
            values = ~values
        if valid is not None:
            values = np.where(valid if rows is None else valid[rows], values, np.uint64(0))
        return values

    return adjusted


def _plain_digit(values: U64) -> Digit:
    return lambda rows: values if rows is None else values[rows]


def _ordered_words(words: tuple[U64, ...], kind: pa.DataType) -> list[U64]:
    """Words whose unsigned order is that of the values."""
    if pat.is_floating(kind):
        bits = words[0]
        # Negative numbers are ordered backwards by their bits; NaN has one form, above infinity.
        return [np.where(bits & _SIGN, ~bits, bits | _SIGN)]
    if pat.is_unsigned_integer(kind) or pat.is_boolean(kind):
        return [words[0]]
    highest = words[-1] ^ _SIGN
    return [highest, *words[-2::-1]] if len(words) > 1 else [highest]


def _bytes_or_ranks(array: pa.Array, valid: Mask | None) -> Iterator[Digit]:
    """Values that repeat are ordered once each, and their ranks are one digit."""
    step = max(len(array) // _SAMPLE_ROWS, 1)
    sample = array.take(pa.array(np.arange(0, len(array), step, dtype=np.int64)))
    if 2 * pc.count_distinct(sample).as_py() > len(sample):
        yield from _byte_digits(array, valid)
        return
    encoded = array.dictionary_encode()
    entries = encoded.dictionary
    ranks = np.zeros(max(len(entries), 1), dtype=np.uint64)
    ranks[sorted_order([entries], Ordering((SortKey(0),)))] = np.arange(len(entries), dtype=np.uint64)
    indices = encoded.indices.fill_null(0) if encoded.indices.null_count else encoded.indices
    yield _plain_digit(ranks[indices.to_numpy()])


def _byte_digits(array: pa.Array, valid: Mask | None) -> Iterator[Digit]:
    """Eight bytes at a time, the first byte the most significant, then the length ("a" comes before "a\\0")."""
    values, starts, lengths = _bytes_of(array)
    words = np.ndarray((len(values) - 7,), dtype="<u8", buffer=values.data, strides=(1,))
    if valid is not None:
        lengths = np.where(valid, lengths, 0)
    longest = int(lengths.max()) if len(lengths) else 0
    # What all values begin with ("user_", "https://www.") decides nothing.
    shared = _shared_bytes(words, starts, lengths, None if valid is None else np.flatnonzero(valid))
    for position in range(shared, min(max(longest, 1), _STEPPED_BYTES), 8):
        yield _byte_digit(words, starts, lengths, position)
    begin = max(shared, _STEPPED_BYTES + (shared - _STEPPED_BYTES) % 8)
    while begin < longest:
        yield _block_digit(values, starts, lengths, begin, 2 * begin)
        begin *= 2
    yield _plain_digit(lengths.astype(np.uint64))


def _shared_bytes(words: Any, starts: Indices, lengths: Indices, rows: Indices | None) -> int:
    """How many bytes all of these rows have in common at their start."""
    shortest = int((lengths if rows is None else lengths[rows]).min(initial=1 << 62))
    shortest = 0 if shortest == 1 << 62 else min(shortest, _STEPPED_BYTES)
    for position in range(0, shortest, 8):
        found = _byte_digit(words, starts, lengths, position)(rows)
        differing = int(np.bitwise_or.reduce(found ^ found[0]))
        if differing:
            return min(position + (64 - differing.bit_length()) // 8, shortest)
    return shortest


def _byte_digit(words: Any, starts: Indices, lengths: Indices, position: int) -> Digit:
    def digit(rows: Indices | None) -> U64:
        begin, left = (starts, lengths) if rows is None else (starts[rows], lengths[rows])
        left = np.clip(left - position, 0, 8)
        # A value that has ended reads at its own start, where there is room, and keeps nothing of it.
        taken: U64 = words[np.where(left > 0, begin + position, begin)]
        taken &= _KEPT[left]
        return taken.byteswap()

    return digit


def _block_digit(values: Any, starts: Indices, lengths: Indices, begin: int, end: int) -> Digit:
    """The ranks of so many bytes at once, among those of all rows."""

    @cache
    def ranks() -> U64:
        found = np.zeros(len(starts), dtype=np.uint64)
        longer = np.flatnonzero(lengths > begin)
        ends = starts[longer] + np.minimum(lengths[longer], end)
        texts = [values[first:last].tobytes() for first, last in zip(starts[longer] + begin, ends, strict=True)]
        rank = {text: number for number, text in enumerate(sorted(set(texts)), 1)}
        found[longer] = [rank[text] for text in texts]
        return found

    return lambda rows: ranks() if rows is None else ranks()[rows]


def _bytes_of(array: pa.Array) -> tuple[Any, Indices, Indices]:
    """The bytes of all values with room for a word behind them, and where each value starts and how long it is."""
    kind = array.type
    if not (pat.is_large_string(kind) or pat.is_large_binary(kind)):
        try:
            array = array.cast(pa.large_binary())
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            raise UnsupportedKeyType(str(kind)) from None
    rows = len(array)
    _, offset_buffer, value_buffer = array.buffers()
    offsets: Any = np.frombuffer(offset_buffer, dtype=np.int64, count=array.offset + rows + 1)[array.offset :]
    first, size = int(offsets[0]), int(offsets[-1] - offsets[0])
    values = np.zeros(size + 8, dtype=np.uint8)
    if size:
        values[:size] = np.frombuffer(value_buffer, dtype=np.uint8, count=size, offset=first)
    return values, offsets[:-1] - first, offsets[1:] - offsets[:-1]


def _plain(column: Any) -> pa.Array:
    """One array without dictionary encoding."""
    if isinstance(column, pa.ChunkedArray):
        # More than 2 GB of strings: only wide offsets can hold them in one array.
        wide = pa.large_string() if pat.is_string(column.type) else pa.large_binary()
        column = as_array(column.cast(wide))
    if isinstance(column.type, pa.BaseExtensionType):
        return _plain(column.storage)
    return _plain(column.dictionary_decode()) if pat.is_dictionary(column.type) else column

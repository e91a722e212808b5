"""One 64-bit hash per row, the same on every edge, in every process and on every machine.

Rows that Spark treats as equal keys hash equal: NaN equals NaN, -0.0 equals 0.0, null equals null, 12:00:00 in seconds
equals 12:00:00.000 in milliseconds. Widening casts are the planner's: both sides of a join have the same type.

The low bits choose the owner (`owners`), the high ones its mini-partition (`mini_partitions`).

The arithmetic is fixed for ever: a test pins values, because a checkpoint outlives the process that wrote it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from reshape.errors import ReshapeError

U64 = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

_SEED = np.uint64(0x9E3779B97F4A7C15)  # The golden ratio, as in splitmix64.
_NULL = np.uint64(0xA0761D6478BD642F)
_FIRST_NULL = np.uint64((0xA0761D6478BD642F + 0x9E3779B97F4A7C15) % 2**64)  # NumPy warns when scalars wrap around.
_ODD = np.uint64(0xE7037ED1A0B428DB)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)

# _KEPT[n] keeps the first n bytes of a little-endian word; the bytes behind the end belong to the next value.
_KEPT: U64 = np.array([(1 << (8 * n)) - 1 for n in range(9)], dtype=np.uint64)

# A loop step costs some 20 us whatever the number of rows, so a single long value must not cost thousands of steps.
_LOOPED_WORDS = 16
# The dozen temporaries of a block of strings stay in the second-level cache: 2.5 times as fast as 65,536 rows at once.
_BLOCK_ROWS = 8_192

_POSITIONS: U64 = np.arange(1, _LOOPED_WORDS + 1, dtype=np.uint64) * _SEED

_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_DAY_IN_MILLISECONDS = 86_400_000

_INTEGERS: dict[int, Any] = {
    pa.int8().id: np.int8,
    pa.int16().id: np.int16,
    pa.int32().id: np.int32,
    pa.int64().id: np.int64,
    pa.uint8().id: np.uint8,
    pa.uint16().id: np.uint16,
    pa.uint32().id: np.uint32,
    pa.uint64().id: np.uint64,
    pa.date32().id: np.int32,
    pa.date64().id: np.int64,
    pa.time32("s").id: np.int32,
    pa.time64("us").id: np.int64,
    pa.timestamp("us").id: np.int64,
    pa.duration("us").id: np.int64,
}
_FLOATS: dict[int, Any] = {
    pa.float16().id: np.float16,
    pa.float32().id: np.float32,
    pa.float64().id: np.float64,
}


class UnsupportedKeyType(ReshapeError):
    """A column of this type cannot be a key: it has no equality (map), or none that is built (list).

    >>> print(reshape.UnsupportedKeyType("list<item: int64>", "tags", "group-by"))
    group-by: column 'tags' of type list<item: int64> cannot be a key. Keys may be numbers, decimals, strings, ...
    """

    def __init__(self, type_name: str, column: int | str | None = None, operator: str | None = None) -> None:
        super().__init__(type_name, column, operator)
        self.type_name = type_name
        self.column = column
        self.operator = operator

    def __str__(self) -> str:
        where = f"{self.operator}: " if self.operator else ""
        what = "a column" if self.column is None else f"column {self.column!r}"
        return (
            f"{where}{what} of type {self.type_name} cannot be a key. Keys may be numbers, decimals, strings, binary, "
            "booleans, dates, times, timestamps and structs of these; convert it (for example with to_json) first."
        )


def hash_rows(columns: Sequence[pa.Array]) -> U64:
    """The hash of each row over one or more key columns of equal length."""
    if not columns:
        raise ValueError("hash_rows needs at least one key column; without keys all rows belong to one owner")
    hashes: U64 | None = None
    for position, column in enumerate(columns):
        try:
            hashes = _chain(hashes, *_column_words(column))
        except UnsupportedKeyType as error:
            raise UnsupportedKeyType(error.type_name, position) from None
    assert hashes is not None
    return hashes


def owners(hashes: U64, workers: int) -> npt.NDArray[np.uint16]:
    """The worker that owns each hash, of at most 65,536."""
    if workers & (workers - 1) == 0:  # the same remainder, a tenth of the time
        return (hashes & np.uint64(workers - 1)).astype(np.uint16)
    return (hashes % np.uint64(workers)).astype(np.uint16)


def mini_partitions(hashes: U64, workers: int, per_worker: int) -> npt.NDArray[np.int64]:
    """The mini-partition of each hash: one of ``per_worker`` of its owner, which is the remainder by ``workers``."""
    part = ((hashes >> np.uint64(32)) * np.uint64(per_worker)) >> np.uint64(32)
    return (part * np.uint64(workers) + owners(hashes, workers)).astype(np.int64)


def is_injective(types: Sequence[Any]) -> bool:
    """Whether different keys of these types always have different hashes (nulls apart), so that none need be compared.

    The mix is a bijection of 64 bits; only one fixed-width column whose values reach it unchanged profits.
    """
    if len(types) != 1:
        return False
    kind = types[0]
    if kind.id == pa.date64().id or pat.is_boolean(kind):
        return bool(pat.is_boolean(kind))
    if pat.is_time(kind) or pat.is_timestamp(kind) or pat.is_duration(kind):
        return bool(kind.unit == "us")
    return bool(kind.id in _INTEGERS or kind.id in _FLOATS)


def validity(array: pa.Array) -> Mask | None:
    """True where a row has a value; None when all rows have one."""
    if pat.is_null(array.type):
        return np.zeros(len(array), dtype=np.bool_)
    if array.null_count == 0:
        return None
    return _bits(array.buffers()[0], array.offset, len(array))


def fixed_words(array: pa.Array) -> tuple[U64, ...] | None:
    """The value of each row as one or more 64-bit words; None when the type is of variable width.

    Words are equal exactly when Spark says that the (non-null) values are. Those of null rows mean nothing. The array
    must not be dictionary-encoded. The words may be a view of the array's memory: do not write to them.
    """
    kind: Any = array.type
    rows, start = len(array), array.offset
    if pat.is_null(kind):
        return (np.zeros(rows, dtype=np.uint64),)
    if pat.is_boolean(kind):
        buffer = array.buffers()[1]
        return (_bits(buffer, start, rows).astype(np.uint64) if rows else np.zeros(0, dtype=np.uint64),)
    if kind.id in _INTEGERS:
        values = _values(array, _INTEGERS[kind.id])
        wide: U64 = values.astype(np.uint64 if values.dtype.kind == "u" else np.int64, copy=False).view(np.uint64)
        return (wide,)
    if kind.id in _FLOATS:
        with np.errstate(invalid="ignore"):  # A signalling NaN (or what memory holds at a null) is no news.
            # Adding zero turns -0.0 into 0.0 and makes the copy that the next line needs.
            floats: npt.NDArray[np.float64] = _values(array, _FLOATS[kind.id]).astype(np.float64, copy=False) + 0.0
        floats[np.isnan(floats)] = np.nan
        return (floats.view(np.uint64),)
    if pat.is_decimal(kind):
        if kind.bit_width < 128:
            array = array.cast(pa.decimal128(kind.precision, kind.scale))
            kind, start = array.type, array.offset
        count: int = kind.bit_width // 64
        if rows == 0:
            return (np.zeros(0, dtype=np.uint64),) * count
        raw: U64 = np.frombuffer(array.buffers()[1], dtype="<u8", count=(start + rows) * count)[start * count :]
        return tuple(np.ascontiguousarray(raw[word::count]) for word in range(count))
    return None


def _column_words(array: pa.Array) -> tuple[U64, Mask | None]:
    """A word for each row of a column, not yet mixed, and the rows that have a value."""
    kind = array.type
    if isinstance(array, pa.ChunkedArray):
        return _column_words(array.combine_chunks())
    if isinstance(kind, pa.BaseExtensionType):
        return _column_words(array.storage)
    if pat.is_dictionary(kind):
        return _dictionary_words(array)
    words = fixed_words(array)
    if words is not None:
        word, *more = _unit_normalised(words, kind)
        for other in more:
            word = _mix(word + _SEED) * _ODD + other
        return word, validity(array)
    if pat.is_struct(kind):
        return _struct_words(array), validity(array)
    return _byte_words(array), validity(array)


def _struct_words(array: pa.StructArray) -> U64:
    hashes: U64 | None = None
    for child in array.flatten():
        hashes = _chain(hashes, *_column_words(child))
    return np.zeros(len(array), dtype=np.uint64) if hashes is None else hashes


def _dictionary_words(array: pa.DictionaryArray) -> tuple[U64, Mask | None]:
    """The entries' words, one lookup a row. Both the index and the entry may be null."""
    valid = validity(array.indices)
    if len(array.dictionary) == 0:
        return np.zeros(len(array), dtype=np.uint64), valid
    words, valid_entries = _column_words(array.dictionary)
    indices = _values(array.indices, array.indices.type.to_pandas_dtype())
    if valid is not None:
        indices = np.where(valid, indices, 0)
    if valid_entries is not None:
        valid = valid_entries[indices] if valid is None else valid & valid_entries[indices]
    return words[indices], valid


def _chain(before: U64 | None, word: U64, valid: Mask | None) -> U64:
    """splitmix64 of the word, seeded by the hash so far. A bijection of the word for any given seed."""
    state = word + _SEED if before is None else word + before * _ODD
    if valid is not None:
        state[~valid] = _FIRST_NULL if before is None else _NULL + before[~valid] * _ODD
    return _mix(state)


def _mix(state: U64) -> U64:
    """The output function of splitmix64, in place."""
    shifted = state >> np.uint64(30)
    state ^= shifted
    state *= _MIX_1
    np.right_shift(state, np.uint64(27), out=shifted)
    state ^= shifted
    state *= _MIX_2
    np.right_shift(state, np.uint64(31), out=shifted)
    state ^= shifted
    return state


def _unit_normalised(words: tuple[U64, ...], kind: pa.DataType) -> tuple[U64, ...]:
    """Times in microseconds and dates in days. Nanoseconds lose digits: a collision more, never a wrong answer."""
    if kind.id == pa.date64().id:
        return ((words[0].view(np.int64) // _DAY_IN_MILLISECONDS).view(np.uint64),)
    if pat.is_timestamp(kind) or pat.is_time(kind) or pat.is_duration(kind):
        if kind.unit == "ns":
            return ((words[0].view(np.int64) // 1_000).view(np.uint64),)
        if kind.unit != "us":
            return (words[0] * np.uint64(_MICROSECONDS[kind.unit]),)
    return words


def _byte_words(array: pa.Array) -> U64:
    """A word for each string or binary value: the sum of its mixed 8-byte words, each mixed with its position.

    A sum does not care for the order of its terms, so the words of short values are added in a loop over the position
    and those of long ones all at once, with the same result.
    """
    array = _with_offsets(array)
    total: U64 = np.empty(len(array), dtype=np.uint64)
    for start in range(0, len(array), _BLOCK_ROWS):
        total[start : start + _BLOCK_ROWS] = _block_words(array.slice(start, _BLOCK_ROWS))
    return total


def _block_words(array: pa.Array) -> U64:
    rows = len(array)
    _, offset_buffer, value_buffer = array.buffers()
    offset_type = np.int64 if pat.is_large_string(array.type) or pat.is_large_binary(array.type) else np.int32
    offsets: Any = np.frombuffer(offset_buffer, dtype=offset_type, count=array.offset + rows + 1)[array.offset :]
    first, size = int(offsets[0]), int(offsets[-1] - offsets[0])
    # A copy with room behind the last value: two words may be read there, and Arrow promises no padding.
    values = np.zeros((size + 7) // 8 * 8 + 16, dtype=np.uint8)
    if size:
        values[:size] = np.frombuffer(value_buffer, dtype=np.uint8, count=size, offset=first)
    starts = offsets[:-1].astype(np.int64) - first
    lengths = (offsets[1:] - offsets[:-1]).astype(np.int64)

    longest = int(lengths.max())
    total: U64 = lengths.astype(np.uint64) * _ODD
    _add_first_words(total, values.view("<u8"), starts, lengths, min(_LOOPED_WORDS, max(1, -(-longest // 8))))
    if longest > 8 * _LOOPED_WORDS:
        words = np.ndarray((size + 1,), dtype="<u8", buffer=values.data, strides=(1,))
        rows_left = np.flatnonzero(lengths > 8 * _LOOPED_WORDS)
        total[rows_left] += _sums_of_rest(words, starts[rows_left], lengths[rows_left])
    return total


def _add_first_words(total: U64, aligned: U64, starts: Any, left: Any, steps: int) -> None:
    """Adds the first words of all values.

    A word lies across two that are aligned, and the upper of these is the lower one of the step that follows: one
    gather a step, five times as fast as one of words that are not aligned.
    """
    rows: Any = None
    place = starts >> 3
    shift = ((starts & 7) << 3).view(np.uint64)
    back = np.uint64(63) - shift
    low = aligned.take(place)
    for step in range(steps):
        if step:
            left = left - 8
            going_on = left > 0
            # Rows that have ended take part, with nothing, until they are the most: dropping them costs as much.
            if 2 * np.count_nonzero(going_on) < len(left):
                kept = np.flatnonzero(going_on)
                rows = kept if rows is None else rows[kept]
                left, place, shift, back, low = left[kept], place[kept], shift[kept], back[kept], low[kept]
        high = aligned.take(place + (step + 1), mode="clip")
        mixed = low >> shift
        upper = high << np.uint64(1)
        upper <<= back
        mixed |= upper
        mixed &= _KEPT.take(np.minimum(left, 8), mode="clip")
        _mix_word(mixed, _POSITIONS[step])
        if step:
            mixed *= left > 0
        if rows is None:
            total += mixed
        else:
            total[rows] += mixed
        low = high


def _mixed_words(words: U64, starts: Any, left: Any, position: Any) -> U64:
    """The words at these bytes, cut to the bytes that are left of their values, mixed with their position."""
    mixed: U64 = words[starts]
    mixed &= _KEPT[np.minimum(left, 8)]
    _mix_word(mixed, position)
    return mixed


def _mix_word(word: U64, position: Any) -> None:
    """Mixes words with their position, in place."""
    word += position
    word ^= word >> np.uint64(32)
    word *= _MIX_1
    word ^= word >> np.uint64(29)
    word *= _MIX_2


def _sums_of_rest(words: U64, starts: Any, lengths: Any) -> U64:
    """The sums over the words of long values that the loop has left, all words of all values at once."""
    counts = -(-lengths // 8) - _LOOPED_WORDS
    ends = np.cumsum(counts)
    step = np.arange(ends[-1]) - np.repeat(ends - counts, counts) + _LOOPED_WORDS
    mixed = _mixed_words(
        words,
        np.repeat(starts, counts) + 8 * step,
        np.repeat(lengths, counts) - 8 * step,
        (step + 1).astype(np.uint64) * _SEED,
    )
    sums: U64 = np.add.reduceat(mixed, ends - counts)
    return sums


def _with_offsets(array: pa.Array) -> pa.Array:
    """A string or binary array in the layout with one value buffer and offsets."""
    kind = array.type
    if pat.is_string(kind) or pat.is_binary(kind) or pat.is_large_string(kind) or pat.is_large_binary(kind):
        return array
    if pat.is_fixed_size_binary(kind):
        return array.cast(pa.large_binary())
    if pat.is_string_view(kind):
        return array.cast(pa.large_string())
    if pat.is_binary_view(kind):
        return array.cast(pa.large_binary())
    raise UnsupportedKeyType(str(kind))


def _values(array: pa.Array, dtype: Any) -> Any:
    """The values of a fixed-width array without a copy; those of null rows are whatever memory holds."""
    if len(array) == 0:
        return np.zeros(0, dtype=dtype)
    return np.frombuffer(array.buffers()[1], dtype=dtype, count=array.offset + len(array))[array.offset :]


def _bits(buffer: pa.Buffer, start: int, count: int) -> Mask:
    """A bitmap as booleans."""
    first = start // 8
    raw = np.frombuffer(buffer, dtype=np.uint8, count=(start + count + 7) // 8 - first, offset=first)
    skipped = start - 8 * first
    bits = np.unpackbits(raw, bitorder="little")[skipped : skipped + count]
    return bits.view(np.bool_)

"""XXH64 of values, as Spark's xxhash64 has them: all rows at once.

Spark hashes small numbers as four bytes, longs as eight, texts by their bytes; each is plain XXH64 of those bytes.
"""

from __future__ import annotations

from decimal import Context
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from reshape.kernels.columns import Indices
from reshape.kernels.hashing import U64, UnsupportedKeyType, fixed_words

_PRIME_1, _PRIME_2, _PRIME_3, _PRIME_4, _PRIME_5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
_STRIPE = 32
_EXACT = Context(prec=80)
# The most digits of a decimal that Spark keeps in a long.
_LONG_DIGITS = 18


def xxhash64(array: pa.Array, seed: int = 42) -> U64:
    """The hash of each value; the array must have no nulls. 42 is the seed that Spark uses."""
    kind = array.type
    if pat.is_decimal(kind) and kind.precision > _LONG_DIGITS:
        return _of_bytes(pa.array(map(_java_bytes, array), pa.large_binary()), seed)
    if pat.is_string(kind) or pat.is_binary(kind) or pat.is_large_string(kind) or pat.is_large_binary(kind):
        return _of_bytes(array.cast(pa.large_binary()), seed)
    words = fixed_words(array)
    if words is None:
        raise UnsupportedKeyType(str(kind))
    if pat.is_float32(kind):
        narrow = words[0].view(np.float64).astype(np.float32).view(np.uint32)
        return _of_ints(narrow.astype(np.uint64), seed)
    small = pat.is_boolean(kind) or pat.is_date32(kind) or (pat.is_integer(kind) and kind.bit_width <= 32)
    return _of_ints(words[0] & np.uint64(0xFFFFFFFF), seed) if small else _of_longs(words[0], seed)


def _java_bytes(value: Any) -> bytes:
    """The unscaled value of a wide decimal as Java's BigInteger writes it: the fewest bytes, the highest first."""
    number = int(_EXACT.scaleb(value.as_py(), value.type.scale))
    bits = (number if number >= 0 else ~number).bit_length()
    return number.to_bytes(bits // 8 + 1, "big", signed=True)


def _of_ints(values: U64, seed: int) -> U64:
    start = np.uint64((seed + int(_PRIME_5) + 4) % 2**64)
    return _avalanche(_with_int(np.full(len(values), start), values))


def _of_longs(values: U64, seed: int) -> U64:
    start = np.uint64((seed + int(_PRIME_5) + 8) % 2**64)
    return _avalanche(_with_long(np.full(len(values), start), values))


def _of_bytes(array: pa.Array, seed: int) -> U64:
    """Steps of all values together; a value takes part in as many as it is long."""
    rows = len(array)
    _, offset_buffer, value_buffer = array.buffers()
    offsets: Any = np.frombuffer(offset_buffer, dtype=np.int64, count=array.offset + rows + 1)[array.offset :]
    first, size = int(offsets[0]), int(offsets[-1] - offsets[0])
    # Room behind the last value: a word may be read there.
    values = np.zeros(size + 8, dtype=np.uint8)
    if size:
        values[:size] = np.frombuffer(value_buffer, dtype=np.uint8, count=size, offset=first)
    words = np.ndarray((size + 1,), dtype="<u8", buffer=values.data, strides=(1,))
    starts, lengths = offsets[:-1] - first, offsets[1:] - offsets[:-1]
    hashes, done = _stripes(words, starts, lengths, seed)
    hashes += lengths.astype(np.uint64)
    for _ in range(3):  # fewer than 32 bytes are left: up to three words, half a word, three bytes
        long = np.flatnonzero(lengths - done >= 8)
        hashes[long] = _with_long(hashes[long], words[(starts + done)[long]])
        done[long] += 8
    ints = np.flatnonzero(lengths - done >= 4)
    hashes[ints] = _with_int(hashes[ints], words[(starts + done)[ints]] & np.uint64(0xFFFFFFFF))
    done[ints] += 4
    for _ in range(3):
        some = np.flatnonzero(lengths > done)
        hashes[some] ^= values[(starts + done)[some]].astype(np.uint64) * _PRIME_5
        hashes[some] = _rotated(hashes[some], 11) * _PRIME_1
        done[some] += 1
    return _avalanche(hashes)


def _stripes(words: U64, starts: Indices, lengths: Indices, seed: int) -> tuple[U64, Indices]:
    """What the whole 32-byte stripes of each value make, and how many bytes these are."""
    hashes = np.full(len(starts), np.uint64((seed + int(_PRIME_5)) % 2**64))
    done = lengths // _STRIPE * _STRIPE
    rows = np.flatnonzero(done)
    if not len(rows):
        return hashes, done
    seeds = (seed + int(_PRIME_1) + int(_PRIME_2), seed + int(_PRIME_2), seed, seed - int(_PRIME_1))
    lanes = [np.full(len(rows), np.uint64(one % 2**64)) for one in seeds]
    for stripe in range(int(lengths.max()) // _STRIPE):
        going_on = np.flatnonzero(done[rows] > stripe * _STRIPE)
        place = starts[rows[going_on]] + stripe * _STRIPE
        for number, lane in enumerate(lanes):
            lane[going_on] = _round(lane[going_on], words[place + 8 * number])
    total = sum((_rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)), np.uint64(0))
    for lane in lanes:
        total = (total ^ _round(np.zeros_like(lane), lane)) * _PRIME_1 + _PRIME_4
    hashes[rows] = total
    return hashes, done


def _round(lane: U64, word: U64) -> U64:
    return _rotated(lane + word * _PRIME_2, 31) * _PRIME_1


def _with_long(hashes: U64, word: U64) -> U64:
    return _rotated(hashes ^ _round(np.zeros_like(hashes), word), 27) * _PRIME_1 + _PRIME_4


def _with_int(hashes: U64, word: U64) -> U64:
    return _rotated(hashes ^ (word * _PRIME_1), 23) * _PRIME_2 + _PRIME_3


def _rotated(words: U64, bits: int) -> U64:
    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))


def _avalanche(hashes: U64) -> U64:
    hashes = (hashes ^ (hashes >> np.uint64(33))) * _PRIME_2
    hashes = (hashes ^ (hashes >> np.uint64(29))) * _PRIME_3
    return hashes ^ (hashes >> np.uint64(32))

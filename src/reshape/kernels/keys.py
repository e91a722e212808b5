"""Key columns made comparable: Spark's equality of keys, on whole columns at once.

Null equals null here (as in grouping and set operations); a join, where null matches nothing, asks `nulls()` and leaves
those rows out. NaN equals NaN and -0.0 equals 0.0. No hash decides anything here: it only finds candidates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from reshape.kernels.columns import Indices, as_array, take
from reshape.kernels.hashing import U64, Mask, UnsupportedKeyType, fixed_words, validity

# A table of so many places is made in a microsecond.
_FEW_PLACES = 1_024


class KeyColumns:
    """The key columns of some rows."""

    __slots__ = ("_parts", "_tops", "size")

    def __init__(self, columns: Sequence[Any], size: int) -> None:
        self.size = size
        self._tops = [_plain(column) for column in columns]
        self._parts = [part for column in self._tops for part in _parts(column)]

    def nulls(self) -> Mask | None:
        """Rows where any key column is null; None when there are none. Nulls inside a struct do not count."""
        found: Mask | None = None
        for column in self._tops:
            if column.null_count or pat.is_null(column.type):
                valid = validity(as_array(column))
                if valid is not None:
                    found = ~valid if found is None else found | ~valid
        return found

    def single_words(self) -> U64 | None:
        """One word for each row, equal for equal values, where there is a single column of such a type."""
        words = self._parts[0].words if len(self._parts) == 1 else None
        return words[0] if words is not None and len(words) == 1 else None

    def equal(self, mine: Indices, other: KeyColumns, theirs: Indices) -> Mask:
        """Whether row mine[i] here has the key of row theirs[i] there."""
        result = np.ones(len(mine), dtype=np.bool_)
        for here, there in zip(self._parts, other._parts, strict=True):
            result &= here.equal(mine, there, theirs)
        return result

    def codes(self) -> tuple[Indices, Indices]:
        """A number for each row, equal for equal keys and dense from 0, and for each number its first row."""
        if not self._parts:
            return np.zeros(self.size, dtype=np.int64), np.zeros(min(self.size, 1), dtype=np.int64)
        numbers = self._parts[0].numbers()
        for part in self._parts[1:]:
            numbers = _paired(numbers, part.numbers())
        dense = _dense(numbers)
        return dense.codes, first_rows(dense.codes, dense.bound)


class _Numbers(NamedTuple):
    """Numbers from 0 to `bound` - 1, equal for equal values. They are dense when each of them occurs."""

    codes: Indices
    bound: int
    dense: bool


class _Part:
    """One column of plain values: words when the type has a fixed width, else the Arrow array itself."""

    __slots__ = ("array", "valid", "words")

    def __init__(self, words: tuple[U64, ...] | None, array: Any, valid: Mask | None) -> None:
        self.words = words
        self.array = array
        self.valid = valid

    def equal(self, mine: Indices, other: _Part, theirs: Indices) -> Mask:
        same: Mask
        if self.words is not None and other.words is not None:
            same = np.ones(len(mine), dtype=np.bool_)
            for here, there in zip(self.words, other.words, strict=True):
                same &= here[mine] == there[theirs]
        else:
            compared = pc.equal(take(self.array, pa.array(mine)), take(other.array, pa.array(theirs)))
            same = compared.fill_null(False).to_numpy(zero_copy_only=False)
        if self.valid is None and other.valid is None:
            return same
        here_valid = True if self.valid is None else self.valid[mine]
        there_valid = True if other.valid is None else other.valid[theirs]
        both = np.logical_and(here_valid, there_valid)
        neither = ~np.logical_or(here_valid, there_valid)
        return (same & both) | neither

    def numbers(self) -> _Numbers:
        if self.words is not None:
            numbers = _numbered(self.words[0], self.valid)
            for word in self.words[1:]:
                numbers = _paired(numbers, _numbered(word, self.valid))
        else:
            encoded = as_array(self.array).dictionary_encode()
            indices = encoded.indices.fill_null(0) if encoded.indices.null_count else encoded.indices
            count = len(encoded.dictionary)
            numbers = _Numbers(indices.to_numpy().astype(np.int64), max(count, 1), count > 0)
        if self.valid is None:
            return numbers
        # The words of null rows mean nothing: null is a group of its own, and numbers that only they had do not occur.
        return _Numbers(np.where(self.valid, numbers.codes, numbers.bound), numbers.bound + 1, False)


def check_keys(operator: str, schema: pa.Schema, keys: Iterable[int]) -> None:
    """Raises `UnsupportedKeyType` when a key column has a type without equality."""
    for key in keys:
        field = schema.field(key)
        if not comparable(field.type):
            raise UnsupportedKeyType(str(field.type), field.name, operator)


def comparable(kind: pa.DataType) -> bool:
    """Whether values of a type can be keys."""
    if isinstance(kind, pa.BaseExtensionType):
        return comparable(kind.storage_type)
    if pat.is_dictionary(kind):
        return comparable(kind.value_type)
    if pat.is_struct(kind):
        return all(comparable(field.type) for field in kind)
    return not (pat.is_nested(kind) or pat.is_interval(kind))


def first_rows(codes: Indices, count: int) -> Indices:
    """The first row with each code: written backwards, so that the first one is written last."""
    first = np.zeros(count, dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    return first


def normalised(array: pa.Array) -> pa.Array:
    """Key values as Spark shows them in the result of a grouping: 0.0 for -0.0, one NaN for all."""
    kind = array.type
    if pat.is_floating(kind):
        words = fixed_words(array)
        assert words is not None
        valid = validity(array)
        floats = words[0].view(np.float64)
        return pa.array(floats, mask=None if valid is None else ~valid).cast(kind)
    if pat.is_struct(kind) and any(pat.is_floating(field.type) or pat.is_struct(field.type) for field in kind):
        valid = validity(array)
        children = [normalised(child) for child in array.flatten()]
        mask = None if valid is None else pa.array(~valid)
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    return array


def _numbered(words: U64, valid: Mask | None) -> _Numbers:
    """Whole numbers that lie close together are numbered by their distance from the least: no table, no hash."""
    values = words.view(np.int64)
    counted = values if valid is None else values[valid]
    if not len(counted):
        return _Numbers(np.zeros(len(values), dtype=np.int64), 1, False)
    least = int(counted.min())
    span = int(counted.max()) - least + 1
    if span > _most_places(len(values)):
        return _factorized(words)
    distances = values - np.int64(least)
    return _Numbers(distances if valid is None else np.where(valid, distances, 0), span, False)


def _paired(first: _Numbers, second: _Numbers) -> _Numbers:
    """Numbers of pairs. Packed as they are while that leaves few, or else dense ones: two of those fit 64 bits."""
    if first.bound * second.bound <= _most_places(len(first.codes)):
        return _Numbers(first.codes * second.bound + second.codes, first.bound * second.bound, False)
    first, second = _dense(first), _dense(second)
    packed = _Numbers(first.codes * second.bound + second.codes, first.bound * second.bound, False)
    return packed if packed.bound <= _most_places(len(packed.codes)) else _factorized(packed.codes)


def _dense(numbers: _Numbers) -> _Numbers:
    """Without the numbers that do not occur; the others keep their order."""
    if numbers.dense:
        return numbers
    if not len(numbers.codes):
        return _Numbers(numbers.codes, 0, True)
    if numbers.bound > _most_places(len(numbers.codes)):
        return _factorized(numbers.codes)
    occurs = np.zeros(numbers.bound, dtype=np.bool_)
    occurs[numbers.codes] = True
    place = np.cumsum(occurs, dtype=np.int32)
    count = int(place[-1])
    if count == numbers.bound:
        return numbers._replace(dense=True)
    place -= 1
    return _Numbers(place.take(numbers.codes).astype(np.int64), count, True)


def _most_places(rows: int) -> int:
    """Numbers that rows may be spread over before a hash table is as fast, measured with 16,384 to 524,288 rows."""
    return max(_FEW_PLACES, 2 * rows)


def _factorized(values: Any) -> _Numbers:
    codes, uniques = pd.factorize(values)
    return _Numbers(codes.astype(np.int64, copy=False), len(uniques), True)


def _plain(column: Any) -> Any:
    """The column without dictionary encoding or extension."""
    if isinstance(column.type, pa.BaseExtensionType):
        return _plain(column.storage)
    if pat.is_dictionary(column.type):
        return _plain(as_array(column).dictionary_decode())
    return column


def _parts(column: Any) -> Iterator[_Part]:
    kind = column.type
    if pat.is_struct(kind):
        struct = as_array(column)
        valid = validity(struct)
        present = np.ones(len(struct), dtype=np.uint64) if valid is None else valid.astype(np.uint64)
        yield _Part((present,), None, None)
        for child in struct.flatten():
            yield from _parts(_plain(child))
        return
    if pat.is_nested(kind):
        raise UnsupportedKeyType(str(kind))
    if isinstance(column, pa.ChunkedArray):
        # Only a column of more than 2 GB of strings is chunked.
        yield _Part(None, column, _chunked_validity(column))
        return
    if pat.is_fixed_size_binary(kind) and not pat.is_decimal(kind):
        column = column.cast(pa.large_binary())
    yield _Part(fixed_words(column), column, validity(column))


def _chunked_validity(column: pa.ChunkedArray) -> Mask | None:
    if column.null_count == 0:
        return None
    masks = [validity(chunk) for chunk in column.chunks]
    return np.concatenate(
        [
            np.ones(len(chunk), dtype=np.bool_) if mask is None else mask
            for mask, chunk in zip(masks, column.chunks, strict=True)
        ]
    )

"""Key columns made comparable: Spark's equality of keys, on whole columns at once.

Null equals null here (as in grouping and set operations); a join, where null matches nothing, asks `nulls()` and leaves
those rows out. NaN equals NaN and -0.0 equals 0.0. No hash decides anything here: it only finds candidates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from reshape.kernels.columns import Indices, as_array, take
from reshape.kernels.hashing import U64, Mask, UnsupportedKeyType, fixed_words, validity


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
        codes, count = self._parts[0].codes()
        for part in self._parts[1:]:
            more, more_count = part.codes()
            # Both counts are at most the number of rows, so the product of two fits 64 bits.
            codes, count = _factorized(codes * more_count + more)
        return codes, first_rows(codes, count)


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

    def codes(self) -> tuple[Indices, int]:
        if self.words is not None:
            codes, count = _factorized(self.words[0])
            for word in self.words[1:]:
                more, more_count = _factorized(word)
                codes, count = _factorized(codes * more_count + more)
        else:
            encoded = as_array(self.array).dictionary_encode()
            indices = encoded.indices.fill_null(0) if encoded.indices.null_count else encoded.indices
            codes, count = indices.to_numpy().astype(np.int64), max(len(encoded.dictionary), 1)
        if self.valid is None:
            return codes, count
        # The words of null rows mean nothing: null is a group of its own, and groups left empty must not be numbered.
        return _factorized(np.where(self.valid, codes, count))


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


def _factorized(values: Any) -> tuple[Indices, int]:
    codes, uniques = pd.factorize(values)
    return codes.astype(np.int64, copy=False), len(uniques)


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

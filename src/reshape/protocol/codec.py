"""Messages as JSON, and back with every field checked: what is not a message of ours is refused with a clear error.

A message is an object with its ``kind``; records inside it are lists of their fields, because reports are frequent.
Long lists of counts travel as hexadecimal digits, record batches as base64 of Arrow's stream format. Written by hand,
because executors have what PySpark needs and nothing else: a codec library would have to be installed there.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import reprlib
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, NamedTuple, Union, cast, get_args, get_origin, get_type_hints

import numpy as np
import pyarrow as pa

from reshape.control.routing import RoutingTable
from reshape.errors import ReshapeError
from reshape.exchange.fields import Count, Range
from reshape.protocol.errors import MessageRefused
from reshape.protocol.newest import Counted
from reshape.protocol.orders import Orders
from reshape.protocol.reports import Answer, Report, Sender
from reshape.protocol.tables import pack_table, unpack_table
from reshape.protocol.valid_batches import validate

Encode = Callable[[Any], Any]
Decode = Callable[[Any], Any]

# An error names what was refused; a whole message would drown it, and one that is nested deeply cannot be shown whole.
_SHOWN_CHARS = 120
_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother, _SHORT.maxlong = 3, _SHOWN_CHARS, _SHOWN_CHARS, _SHOWN_CHARS
# Samples, bounds and previews have some thousand rows at most. Columns without buffers could claim any number.
_MOST_ROWS = 2**24
# Longer lists of counts are packed.
_MOST_LISTED = 16
_COUNTS = get_args(Count)[1]
_PACKED = {"4": "<u4", "8": "<i8"}  # the bytes of a number, and how they are read

# No key has more digits than a hash.
_WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,19}")


class _Coder(NamedTuple):
    encode: Encode
    decode: Decode


@dataclass(frozen=True, slots=True)
class Reports:
    """What one call brings: one report, or several that belong together. ``line`` and ``number`` tell calls apart: one
    that is made again, because its answer was lost, is booked once. 0 is for what nobody answers. The line is another
    one when Spark runs a task again. ``oldest``: no call with a lower number will be made again."""

    sender: Sender
    line: str
    number: Count
    reports: tuple[Report, ...]
    oldest: Count = 0


@dataclass(frozen=True, slots=True)
class Poll:
    """A task asks for the orders beyond the last one that it knows, and may bring its newest counts."""

    sender: Sender
    after: Count
    counts: tuple[Counted, ...] = ()


def encode_reports(message: Reports) -> bytes:
    return _to_bytes(_coder(Reports).encode(message))


def decode_reports(body: bytes) -> Reports:
    return cast(Reports, _coder(Reports).decode(_from_bytes(body)))


def encode_poll(message: Poll) -> bytes:
    return _to_bytes(_coder(Poll).encode(message))


def decode_poll(body: bytes) -> Poll:
    return cast(Poll, _coder(Poll).decode(_from_bytes(body)))


def encode_orders(message: Orders) -> bytes:
    return _to_bytes(_coder(Orders).encode(message))


def decode_orders(body: bytes) -> Orders:
    return cast(Orders, _coder(Orders).decode(_from_bytes(body)))


def encode_answer(answer: Answer | None) -> bytes:
    return _to_bytes(_coder(_OptionalAnswer).encode(answer))


def decode_answer(body: bytes) -> Answer | None:
    return cast("Answer | None", _coder(_OptionalAnswer).decode(_from_bytes(body)))


def _to_bytes(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _from_bytes(body: bytes) -> Any:
    try:
        return json.loads(body, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:  # ValueError: bytes that are no text, and numbers beyond all limits
        raise MessageRefused("a message", "JSON", f"{type(error).__name__}: {error}"[:_SHOWN_CHARS]) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """JSON allows a name twice and does not say which counts."""
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a name is there twice")
    return made


def _refused(wanted: str, value: Any, where: str = "a field") -> MessageRefused:
    return MessageRefused(where, wanted, _SHORT.repr(value)[:_SHOWN_CHARS])


@cache
def _coder(kind: Any) -> _Coder:
    """How values of a type are written and read."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _ranged(arguments[0], arguments[1])
    if kind in (int, float):
        return _ranged(kind, Range(float("-inf"), float("inf")))
    if kind is bool:
        return _Coder(bool, lambda value: _exactly(bool, value))
    if kind is str:
        return _Coder(_sendable, _text)
    if kind is pa.RecordBatch:
        return _Coder(_batch_text, _batch)
    if kind is RoutingTable:
        return _Coder(pack_table, _table)
    if origin in (Union, types.UnionType):
        return _union(arguments)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        limits = arguments[0].__metadata__[0] if get_origin(arguments[0]) is Annotated else None
        return _whole_numbers(limits) if limits == _COUNTS else _sequence(_coder(arguments[0]))
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(_coder(arguments[0]), _coder(arguments[1]))
    if _is_record(kind):
        return _record(kind)
    raise TypeError(f"messages cannot hold {kind!r}")


def _is_record(kind: Any) -> bool:
    return is_dataclass(kind)


def _exactly(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise _refused(f"a {kind.__name__}", value)
    return value


def _sendable(text: str) -> str:
    """Paths in an error may hold what no encoding has; that must not keep the error from being told."""
    return text.encode(errors="backslashreplace").decode()


def _text(value: Any) -> str:
    text: str = _exactly(str, value)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _refused("a text that can be encoded", value) from None
    return text


def _ranged(kind: type, limits: Range) -> _Coder:
    allowed = (int,) if kind is int else (int, float)
    wanted = f"a number from {limits.least:g} to {limits.most:g}"

    def decode(value: Any) -> Any:
        if type(value) not in allowed or not limits.least <= value <= limits.most:
            raise _refused(wanted, value)
        return kind(value)

    return _Coder(kind, decode)


def _sequence(item: _Coder) -> _Coder:
    def decode(value: Any) -> Any:
        return tuple(item.decode(part) for part in _exactly(list, value))

    return _Coder(lambda value: [item.encode(part) for part in value], decode)


def _whole_numbers(limits: Range) -> _Coder:
    """Counts per worker are most of what routers report. Many of them travel as hexadecimal digits of four or eight
    bytes each, and are looked at as a whole: a tenth of the time that a list of a thousand takes."""
    items = _sequence(_ranged(int, limits))
    wanted = f"more than {_MOST_LISTED} numbers from {limits.least:g} to {limits.most:g}"

    def encode(value: Any) -> Any:
        if len(value) <= _MOST_LISTED:
            return items.encode(value)
        width = "4" if max(value) < 2**32 else "8"
        return width + np.asarray(value, dtype=_PACKED[width]).tobytes().hex()

    def decode(value: Any) -> Any:
        if type(value) is not str:
            return items.decode(value)
        try:
            numbers = np.frombuffer(binascii.unhexlify(value[1:]), dtype=_PACKED[value[:1]])
        except (ValueError, KeyError):
            raise _refused(wanted, value) from None
        if len(numbers) <= _MOST_LISTED or numbers.min() < limits.least or numbers.max() > limits.most:
            raise _refused(wanted, value)
        return tuple(numbers.tolist())

    return _Coder(encode, decode)


def _mapping(key: _Coder, item: _Coder) -> _Coder:
    """Keys of JSON's objects are texts; ours are numbers."""

    def decode_key(text: str) -> Any:
        if not _WHOLE_NUMBER.fullmatch(text):  # int() takes "01" and " 1" too, which would be the key of "1" once more
            raise _refused("a whole number as a key", text)
        return key.decode(int(text))

    def decode(value: Any) -> Any:
        return {decode_key(name): item.decode(part) for name, part in _exactly(dict, value).items()}

    return _Coder(lambda value: {key.encode(name): item.encode(part) for name, part in value.items()}, decode)


def _union(kinds: tuple[Any, ...]) -> _Coder:
    """Records by their kind, None, or one plain type beside None."""
    records = {kind.__name__: kind for kind in kinds if _is_record(kind) and kind is not RoutingTable}
    others = [kind for kind in kinds if kind is not type(None) and kind not in records.values()]
    optional = type(None) in kinds
    if others or len(records) == 1:
        (only,) = others or records.values()
        coder = _coder(only)
        return _Coder(
            lambda value: None if value is None else coder.encode(value),
            lambda value: None if value is None and optional else coder.decode(value),
        )

    def encode(value: Any) -> Any:
        if value is None:
            return None
        name = type(value).__name__
        return {"kind": name, "fields": _coder(records[name]).encode(value)}

    def decode(value: Any) -> Any:
        if value is None and optional:
            return None
        name = _exactly(dict, value).get("kind")
        if not isinstance(name, str) or name not in records or set(value) != {"kind", "fields"}:
            raise _refused(f"one of {', '.join(records)} with its fields", value)
        return _coder(records[name]).decode(value["fields"])

    return _Coder(encode, decode)


def _record(kind: type[Any]) -> _Coder:
    hints = get_type_hints(kind, include_extras=True)
    names = [field.name for field in fields(kind)]
    coders = [_coder(hints[name]) for name in names]
    wanted = f"a list of {len(names)} fields ({', '.join(names)})"

    def encode(value: Any) -> Any:
        return [coder.encode(getattr(value, name)) for name, coder in zip(names, coders, strict=True)]

    def decode(value: Any) -> Any:
        if type(value) is not list or len(value) != len(names):
            raise _refused(wanted, value, kind.__name__)
        made = []
        for name, coder, part in zip(names, coders, value, strict=True):
            try:
                made.append(coder.decode(part))
            except MessageRefused as error:
                raise error.inside(f"{kind.__name__}.{name}") from None
        return kind(*made)

    return _Coder(encode, decode)


def _table(value: Any) -> RoutingTable:
    try:
        return unpack_table(value)
    except (ReshapeError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise _refused(f"a routing table ({_cause(error)})", value) from None


def _batch_text(batch: pa.RecordBatch) -> str:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return base64.b64encode(sink.getvalue()).decode()


def _batch(value: Any) -> pa.RecordBatch:
    text = _exactly(str, value)
    try:
        with pa.ipc.open_stream(base64.b64decode(text, validate=True)) as reader:
            batch = reader.read_next_batch()
        if batch.num_rows > _MOST_ROWS:
            raise ValueError(f"{batch.num_rows:,} rows")
        validate(batch)
    except (pa.ArrowException, StopIteration, ValueError, OSError, MemoryError) as error:
        raise _refused(f"a record batch ({_cause(error)})", value) from None
    return batch


def _cause(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:_SHOWN_CHARS]


_OptionalAnswer = Answer | None

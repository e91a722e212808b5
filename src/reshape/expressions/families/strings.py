"""Texts: counted and cut in code points, compared by bytes. Patterns and positions are constants here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from reshape.expressions.errors import BatchMismatch
from reshape.expressions.letter_case import read_case
from reshape.expressions.table import Refusal, SessionFacts, Value, entry, may_raise
from reshape.expressions.tree import Call, Literal
from reshape.expressions.types import arguments, same

_LAST = 2**31 - 1


def valid(value: pa.Array) -> pa.Array:
    """The same array; raises if it holds what is no UTF-8, where Arrow and Spark would count differently."""
    try:
        value.validate(full=True)
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise BatchMismatch("a string column", f"bytes that are no UTF-8 ({error})", "UTF-8") from error
    return value


def constants(test: Callable[[pa.DataType], bool], *places: int) -> Refusal:
    """Refuses calls whose first argument fails the test, or that have more than constants at these places."""

    def refusal(call: Call) -> str | None:
        for place in places:
            argument = call.arguments[place] if place < len(call.arguments) else None
            if argument is not None and (not isinstance(argument, Literal) or argument.value is None):
                return f"argument {place + 1} of {call.function} is no constant"
        varying = [argument.type for place, argument in enumerate(call.arguments) if place not in places]
        if not all(map(test, varying)):
            return f"{call.function} of {varying[0]} is not in the table"
        return None

    return refusal


def constant(call: Call, place: int) -> Any:
    argument = call.arguments[place]
    assert isinstance(argument, Literal)
    return argument.value


def _text(kind: pa.DataType) -> bool:
    return bool(pat.is_string(kind))


def _text_or_bytes(kind: pa.DataType) -> bool:
    return bool(pat.is_string(kind) or pat.is_binary(kind))


@entry("Length", holds_for="string (code points), binary (bytes)", refusal=arguments(_text_or_bytes))
def length(call: Call, values: Sequence[Value]) -> Value:
    count = pc.utf8_length(valid(values[0])) if pat.is_string(values[0].type) else pc.binary_length(values[0])
    return pc.cast(count, call.type)


@entry("OctetLength", holds_for="string, binary", refusal=arguments(_text_or_bytes))
def octet_length(call: Call, values: Sequence[Value]) -> Value:
    return pc.cast(pc.binary_length(values[0]), call.type)


@entry("BitLength", holds_for="string, binary", refusal=arguments(_text_or_bytes))
def bit_length(call: Call, values: Sequence[Value]) -> Value:
    return pc.multiply(pc.cast(pc.binary_length(values[0]), call.type), pa.scalar(8, call.type))


@entry("Substring", holds_for="string; constant position and length", refusal=constants(_text, 1, 2))
def substring(call: Call, values: Sequence[Value]) -> Value:
    """Positions count from 1, or from the end if negative; 0 is like 1."""
    position, count = constant(call, 1), constant(call, 2)
    text = valid(values[0])
    start = position - 1 if position > 0 else position
    stop = start + count
    if count <= 0:
        return pc.utf8_slice_codeunits(text, 0, 0)
    if start < 0:
        return pc.utf8_slice_codeunits(text, start, stop if stop < 0 else None)
    return pc.utf8_slice_codeunits(text, start, stop if stop < _LAST else None)


def _case(call: Call) -> str | None:
    table = call.option("case")
    if table is None:
        return "spark.sql.icu.caseMappings.enabled is false, and Java's own case depends on its version"
    return arguments(_text)(call) or table.reason_against


@entry("Upper", "Lower", holds_for="string", refusal=_case, options=read_case)
def other_case(call: Call, values: Sequence[Value]) -> Value:
    """Plain ASCII by Arrow; other texts letter by letter with the table that Spark gave."""
    text = values[0]
    ascii_case = pc.ascii_upper if call.function == "Upper" else pc.ascii_lower
    plain = pc.fill_null(pc.string_is_ascii(text), True)
    if pc.all(plain).as_py() is not False:
        return ascii_case(text)
    table = call.option("case")
    others = pa.array(table.applied(valid(text).filter(pc.invert(plain)).to_pylist()), pa.string())
    return pc.replace_with_mask(ascii_case(text), pc.invert(plain), others)


_TRIM = {"StringTrim": pc.utf8_trim, "StringTrimLeft": pc.utf8_ltrim, "StringTrimRight": pc.utf8_rtrim}


@entry(*_TRIM, holds_for="string; the letters to remove constant, a space if not given", refusal=constants(_text, 1))
def trimmed(call: Call, values: Sequence[Value]) -> Value:
    letters = constant(call, 1) if len(call.arguments) > 1 else " "
    return _TRIM[call.function](valid(values[0]), characters=letters) if letters else values[0]


def _joined(call: Call) -> str | None:
    if any(map(may_raise, call.arguments)):
        return "an argument may raise, and Spark's own ways differ on whether it is reached"
    if call.function == "ConcatWs" and (reason := constants(_text, 0)(call)):
        return reason
    return same(_text_or_bytes)(call)


@entry("Concat", holds_for="strings or binary; arguments that cannot raise", refusal=_joined)
def concatenated(call: Call, values: Sequence[Value]) -> Value:
    if not values:
        return pa.scalar("", call.type)
    between = pa.scalar("" if pat.is_string(call.type) else b"", call.type)
    return pc.binary_join_element_wise(*values, between, null_handling="emit_null")


@entry("ConcatWs", holds_for="strings; constant separator; arguments that cannot raise", refusal=_joined)
def concatenated_with(call: Call, values: Sequence[Value]) -> Value:
    between = pa.scalar(constant(call, 0), pa.string())
    if len(values) == 1:
        return pa.scalar("", pa.string())
    return pc.binary_join_element_wise(*values[1:], between, null_handling="skip")


_FIND = {"StartsWith": pc.starts_with, "EndsWith": pc.ends_with, "Contains": pc.match_substring}


@entry(*_FIND, holds_for="string; constant pattern", refusal=constants(_text, 1))
def has_part(call: Call, values: Sequence[Value]) -> Value:
    return _FIND[call.function](values[0], pattern=constant(call, 1))


def _read_escape(expression: Any, facts: SessionFacts) -> dict[str, Any]:
    return {"escape": str(expression.escapeChar())}


def like_regex(pattern: str, escape: str) -> str | None:
    """A regular expression for a pattern of LIKE; None where Spark refuses the pattern."""
    parts, letters = [], iter(pattern)
    for letter in letters:
        if letter == escape:
            escaped = next(letters, None)
            if escaped is None or escaped not in ("_", "%", escape):
                return None
            parts.append(_quoted(escaped))
        else:
            parts.append({"_": ".", "%": ".*"}.get(letter) or _quoted(letter))
    return rf"(?s)\A{''.join(parts)}\z"


def _quoted(letter: str) -> str:
    return rf"\x{{{ord(letter):x}}}"


def _like(call: Call) -> str | None:
    if reason := constants(_text, 1)(call):
        return reason
    if like_regex(constant(call, 1), call.option("escape")) is None:
        return "a pattern that Spark refuses"
    return None


@entry("Like", holds_for="string; constant pattern", refusal=_like, options=_read_escape)
def like(call: Call, values: Sequence[Value]) -> Value:
    return pc.match_substring_regex(valid(values[0]), pattern=like_regex(constant(call, 1), call.option("escape")))


@entry("StringReplace", holds_for="string; constant search and replacement", refusal=constants(_text, 1, 2))
def replaced(call: Call, values: Sequence[Value]) -> Value:
    search = constant(call, 1)
    return pc.replace_substring(values[0], pattern=search, replacement=constant(call, 2)) if search else values[0]


def _from_the_start(call: Call) -> str | None:
    if reason := constants(_text, 0, 2)(call):
        return reason
    return None if constant(call, 2) == 1 else "a search that does not begin at the start"


@entry("StringLocate", holds_for="string; constant search, from the start", refusal=_from_the_start)
def located(call: Call, values: Sequence[Value]) -> Value:
    return _position(valid(values[1]), constant(call, 0))


@entry("StringInstr", holds_for="string; constant search", refusal=constants(_text, 1))
def position(call: Call, values: Sequence[Value]) -> Value:
    return _position(valid(values[0]), constant(call, 1))


def _position(text: pa.Array, search: str) -> Value:
    """Counted from 1 in code points; 0 if it is not there."""
    if pc.all(pc.string_is_ascii(text)).as_py() is not False:
        return pc.add(pc.find_substring(text, pattern=search), pa.scalar(1, pa.int32()))
    places = [None if one is None else one.find(search) + 1 for one in text.to_pylist()]
    return pa.array(places, type=pa.int32())


_PAD = {"StringLPad": pc.utf8_lpad, "StringRPad": pc.utf8_rpad}


def _padding(call: Call) -> str | None:
    if reason := constants(_text, 1, 2)(call):
        return reason
    return None if len(constant(call, 2)) == 1 else "padding of other than one letter"


@entry(*_PAD, holds_for="string; constant length, padding of one letter", refusal=_padding)
def padded(call: Call, values: Sequence[Value]) -> Value:
    width = max(constant(call, 1), 0)
    filled = _PAD[call.function](valid(values[0]), width=width, padding=constant(call, 2))
    return pc.utf8_slice_codeunits(filled, 0, width)


@entry("Reverse", holds_for="string", refusal=arguments(_text))
def reversed_text(call: Call, values: Sequence[Value]) -> Value:
    return pc.utf8_reverse(valid(values[0]))

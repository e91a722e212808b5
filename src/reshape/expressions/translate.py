"""Spark's expressions, read through the JVM gateway, as trees that hosts can evaluate; refused if not exact."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from reshape.expressions.errors import NotExact
from reshape.expressions.table import SessionFacts, table
from reshape.expressions.tree import Call, ColumnRef, Expression, Literal
from reshape.expressions.types import is_atomic
from reshape.plan.analysis import kind, scala_list

__all__ = ["NotExact", "SessionFacts", "session_facts", "translate"]

# Extensions of Spark may bring classes of their own with the same short names.
_PACKAGE = "org.apache.spark.sql.catalyst.expressions."

_SIMPLE = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


def session_facts(spark: Any) -> SessionFacts:
    """What a session's settings say about its expressions."""
    return SessionFacts(
        ansi=spark.conf.get("spark.sql.ansi.enabled") == "true",
        time_zone=spark.conf.get("spark.sql.session.timeZone"),
        legacy_dates=spark.conf.get("spark.sql.legacy.timeParserPolicy").upper() == "LEGACY",
        icu_case=spark.conf.get("spark.sql.icu.caseMappings.enabled", "true") == "true",
    )


def translate(jvm_expression: Any, columns: Mapping[int, int], facts: SessionFacts) -> Expression:
    """The expression over columns by number; `columns` gives them by Catalyst's expression id. Raises NotExact."""
    name = kind(jvm_expression)
    if not str(jvm_expression.getClass().getName()).startswith(_PACKAGE):
        raise NotExact(jvm_expression.sql(), f"{jvm_expression.getClass().getName()} is no expression of Spark's own")
    if name == "Alias":
        return translate(jvm_expression.child(), columns, facts)
    if name == "AttributeReference":
        return _column(jvm_expression, columns)
    if name == "Literal":
        return _literal(jvm_expression)
    entry = table().get(name)
    if entry is None:
        raise NotExact(jvm_expression.sql(), f"{name} is not in the table")
    result_type = _atomic_type(jvm_expression)
    children = [translate(child, columns, facts) for child in scala_list(jvm_expression.children())]
    if name == "InSet":
        children += _set_members(jvm_expression, children[0].type)
    options = entry.options(jvm_expression, facts) if entry.options is not None else {}
    call = Call(name, tuple(children), result_type, tuple(sorted(options.items())))
    if reason := entry.refusal(call):
        raise NotExact(jvm_expression.sql(), reason)
    return call


def _column(reference: Any, columns: Mapping[int, int]) -> ColumnRef:
    number = columns.get(reference.exprId().id())
    if number is None:
        raise NotExact(reference.sql(), "it is no column of this input")
    return ColumnRef(number, _column_type(reference))


def _column_type(reference: Any) -> pa.DataType:
    """A column may be of any type that Arrow has: it is only passed on."""
    from pyspark.sql.types import _parse_datatype_json_string

    from reshape.plan.types import arrow_type

    data_type = reference.dataType()
    simple = _simple_type(str(data_type.catalogString()))
    if simple is not None:
        return simple
    if kind(data_type).removesuffix("$") not in ("ArrayType", "MapType", "StructType"):
        raise NotExact(reference.sql(), f"type {data_type.sql()} is not in the table")
    return arrow_type(_parse_datatype_json_string(data_type.json()))


def _atomic_type(expression: Any) -> pa.DataType:
    simple = _simple_type(str(expression.dataType().catalogString()))
    if simple is None:
        raise NotExact(expression.sql(), f"type {expression.dataType().sql()} is not in the table")
    return simple


def _simple_type(name: str) -> pa.DataType | None:
    """Spark's name of a type; a collation, char and varchar have names of their own and are not among them.

    Neither are decimals of negative scale, which an old setting of Spark allows.
    """
    if name.startswith("decimal("):
        precision, scale = map(int, name.removeprefix("decimal(").removesuffix(")").split(","))
        return pa.decimal128(precision, scale) if scale >= 0 else None
    return _SIMPLE.get(name)


def _literal(literal: Any) -> Literal:
    type_ = _atomic_type(literal)
    try:
        return Literal(_constant(literal.value(), type_), type_)
    except UnicodeDecodeError:
        raise NotExact(literal.sql(), "a text that is no UTF-8") from None


def _constant(value: Any, type_: pa.DataType) -> Any:
    """A value as the JVM holds it: py4j has made Python's numbers, booleans and bytes of Java's already."""
    if value is None:
        return None
    if pat.is_decimal(type_):
        return Decimal(value.toString())
    if pat.is_string(type_):
        # Not toString, which would replace bytes that are no UTF-8.
        return bytes(value.getBytes()).decode()
    if pat.is_binary(type_):
        return bytes(value)
    if pat.is_floating(type_):
        return float(value)
    return value


def _set_members(expression: Any, type_: pa.DataType) -> list[Literal]:
    if not is_atomic(type_):
        raise NotExact(expression.sql(), f"a set of {type_} is not in the table")
    members = []
    iterator = expression.hset().iterator()
    while iterator.hasNext():
        members.append(Literal(_constant(iterator.next(), type_), type_))
    return members

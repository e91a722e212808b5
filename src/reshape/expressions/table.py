"""The table of Spark expressions with exact counterparts: what an entry is, and where entries register themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, TypeAlias

import pyarrow as pa

from reshape.expressions.tree import Call, Expression

Value: TypeAlias = Any  # pa.Array, or pa.Scalar for a constant where an entry takes scalars

Evaluate: TypeAlias = Callable[[Call, Sequence[Value]], Value]
EvaluateLazily: TypeAlias = Callable[[Call, pa.RecordBatch], Value]
# The reason why a call is refused; None if it is exact.
Refusal: TypeAlias = Callable[[Call], str | None]
# What the JVM's expression says beside its children, as named options.
ReadOptions: TypeAlias = Callable[[Any, "SessionFacts"], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """The settings of a session that decide what expressions mean.

    `legacy_dates`: spark.sql.legacy.timeParserPolicy is LEGACY, and dates are printed in an older way. `icu_case`:
    spark.sql.icu.caseMappings.enabled is true, as it is unless it was changed.
    """

    ansi: bool
    time_zone: str
    legacy_dates: bool = False
    icu_case: bool = True


@dataclass(frozen=True, slots=True)
class Entry:
    """One class of Spark's expressions.

    `evaluate` gets the arguments' values. Where it is `strict`, a null argument makes the result null and Spark does
    not look at the arguments behind it (in `order`), so an argument that may raise is evaluated only for rows whose
    earlier arguments are not null. `lazily` stands in for `evaluate` where more decides which arguments are reached.
    `raises` says whether a call may fail by itself, arguments aside.
    """

    name: str
    holds_for: str
    refusal: Refusal
    evaluate: Evaluate | None
    lazily: EvaluateLazily | None
    options: ReadOptions | None
    raises: Callable[[Call], bool]
    scalars: bool
    order: tuple[int, ...] | None
    strict: bool


_entries: dict[str, Entry] = {}


def _never(call: Call) -> bool:
    return False


def entry(
    *names: str,
    holds_for: str,
    refusal: Refusal,
    options: ReadOptions | None = None,
    raises: Callable[[Call], bool] = _never,
    scalars: bool = False,
    order: tuple[int, ...] | None = None,
    strict: bool = True,
) -> Callable[[Evaluate], Evaluate]:
    """Registers the evaluation of expressions of these classes."""

    def register(evaluate: Evaluate) -> Evaluate:
        for name in names:
            _add(Entry(name, holds_for, refusal, evaluate, None, options, raises, scalars, order, strict))
        return evaluate

    return register


def lazy_entry(
    *names: str, holds_for: str, refusal: Refusal, options: ReadOptions | None = None
) -> Callable[[EvaluateLazily], EvaluateLazily]:
    """Registers expressions that decide by themselves for which rows their arguments are evaluated."""

    def register(evaluate: EvaluateLazily) -> EvaluateLazily:
        for name in names:
            _add(Entry(name, holds_for, refusal, None, evaluate, options, _never, True, None, False))
        return evaluate

    return register


def _add(new: Entry) -> None:
    if new.name in _entries:
        raise ValueError(f"{new.name} is in the table twice")
    _entries[new.name] = new


@cache
def table() -> Mapping[str, Entry]:
    """All entries by the name of Spark's class; the families register when they are imported."""
    import reshape.expressions.families  # noqa: F401

    return MappingProxyType(_entries)


def may_raise(expression: Expression) -> bool:
    """Whether a row can make the expression fail, so that it matters for which rows it is evaluated."""
    if not isinstance(expression, Call):
        return False
    return table()[expression.function].raises(expression) or any(map(may_raise, expression.arguments))

"""Random expressions of SQL, by the kind of value that they give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

KINDS = ("int", "bigint", "double", "decimal", "string", "date", "timestamp", "boolean")
NUMBERS = ("int", "bigint", "double", "decimal")
COMPARED = ("=", "<>", "<", "<=", ">", ">=")


@dataclass(frozen=True, slots=True)
class Column:
    """``exact``: the same, bit for bit, in whichever order rows come."""

    text: str
    kind: str
    exact: bool = True

    def of(self, relation: str) -> Column:
        return replace(self, text=f"{relation}.{self.text}")


def orderable(column: Column) -> bool:
    return column.kind != "map"


def kind_of(rng: Random, columns: Sequence[Column], among: Sequence[str] = KINDS) -> str:
    """A kind that some column has, if there is one."""
    known = [column.kind for column in columns if column.kind in among]
    return rng.choice(known or among)


def mentions(text: str, columns: Sequence[Column]) -> bool:
    return any(column.text in text for column in columns)


def literal(rng: Random, kind: str) -> str:
    match kind:
        case "int":
            return str(rng.randint(-3, 12))
        case "bigint":
            return f"{rng.randint(-3, 12)}L"
        case "double":
            return rng.choice(("0.25D", "1.5D", "-2.0D", "0.0D"))
        case "decimal":
            return rng.choice(("1.50", "0.00", "-7.25", "100.00"))
        case "string":
            return rng.choice(("'a'", "'b'", "''", "'Zebra'", "'a b'"))
        case "date":
            return rng.choice(("DATE '2020-02-29'", "DATE '1999-12-31'"))
        case "timestamp":
            return rng.choice(("TIMESTAMP '2020-02-29 12:00:00'", "TIMESTAMP '1969-07-20 20:17:40.5'"))
        case _:
            return rng.choice(("true", "false"))


def leaf(rng: Random, kind: str, columns: Sequence[Column]) -> str:
    known = [column.text for column in columns if column.kind == kind]
    return rng.choice(known) if known and rng.random() < 0.93 else literal(rng, kind)


def scalar(rng: Random, kind: str, columns: Sequence[Column], depth: int = 2) -> str:
    """An expression that raises for no row."""
    if not depth or rng.random() < 0.45:
        return leaf(rng, kind, columns)

    def of(other: str) -> str:
        return scalar(rng, other, columns, depth - 1)

    match rng.randrange(8):
        case 0:
            return f"coalesce({of(kind)}, {of(kind)})"
        case 1:
            return f"CASE WHEN {condition(rng, columns, depth - 1)} THEN {of(kind)} ELSE {of(kind)} END"
        case 2:
            return f"nullif({of(kind)}, {leaf(rng, kind, columns)})"
        case 3:
            return f"{rng.choice(('greatest', 'least'))}({of(kind)}, {of(kind)})"
        case _:
            return _function(rng, kind, columns)


def _function(rng: Random, kind: str, columns: Sequence[Column]) -> str:
    def inner(other: str) -> str:
        return leaf(rng, other, columns)

    text, day, at = inner("string"), inner("date"), inner("timestamp")
    # Of values that are small whatever the columns hold: nothing here overflows.
    few = f"{inner('int')} % 100"
    choices = {
        "int": (f"length({text})", f"year({day})", f"{few} + {rng.randint(0, 9)}", f"datediff({day}, {inner('date')})"),
        "bigint": (f"cast({inner('int')} AS bigint) * 3", f"({inner('bigint')} % 1000) - 7"),
        "double": (f"cast({few} AS double) * 0.5D", f"{inner('double')} + 0.25D", f"- {inner('double')}"),
        "decimal": (f"cast({few} AS decimal(10, 2))", f"abs({inner('decimal')})", f"round({inner('decimal')}, 1)"),
        "string": (
            f"upper({text})",
            f"substring({text}, 1, {rng.randint(0, 3)})",
            f"concat({text}, '-', {inner('string')})",
            f"cast({inner('int')} AS string)",
            f"replace({text}, 'a', 'bb')",
        ),
        "date": (f"date_add({day}, {rng.randint(-40, 40)})", f"trunc({day}, 'MM')", f"cast({at} AS date)"),
        "timestamp": (f"cast({day} AS timestamp)", f"date_trunc('HOUR', {at})"),
        "boolean": (f"{inner('boolean')} AND {inner('boolean')}", f"NOT {inner('boolean')}", f"{text} LIKE '%a%'"),
    }
    return f"({rng.choice(choices[kind])})"


def condition(rng: Random, columns: Sequence[Column], depth: int = 2) -> str:
    match rng.randrange(8):
        case 0 if depth:
            return f"({condition(rng, columns, depth - 1)} OR {condition(rng, columns, depth - 1)})"
        case 1 if depth:
            return f"NOT ({condition(rng, columns, depth - 1)})"
        case 2:
            column = rng.choice(columns).text
            return f"{column} IS {rng.choice(('NULL', 'NOT NULL', 'NOT NULL', 'NOT NULL'))}"
        case 3:
            kind = kind_of(rng, columns, ("int", "string", "date"))
            values = ", ".join(literal(rng, kind) for _ in range(rng.randint(1, 3)))
            return f"{leaf(rng, kind, columns)} {rng.choice(('IN', 'NOT IN'))} ({values})"
        case 4:
            return f"{leaf(rng, 'string', columns)} LIKE '{rng.choice(('a%', '%b%', '_', '%'))}'"
        case _:
            return compared(rng, columns)


def compared(rng: Random, columns: Sequence[Column]) -> str:
    kind = kind_of(rng, columns)
    other = leaf(rng, kind, columns) if rng.random() < 0.3 else literal(rng, kind)
    return f"{leaf(rng, kind, columns)} {rng.choice(COMPARED)} {other}"


def risky(rng: Random, kind: str, columns: Sequence[Column]) -> str:
    """An expression of this kind that may raise for some row."""
    number, text = leaf(rng, "int", columns), leaf(rng, "string", columns)
    made = {
        "int": rng.choice((f"{number} * 1000000", f"cast({text} AS int)", f"10 DIV {number}")),
        "bigint": f"cast({text} AS bigint)",
        "double": f"1.0D / {number}",
        "decimal": f"cast({number} AS decimal(3, 2))",
        "date": f"cast({text} AS date)",
    }
    return made.get(kind) or scalar(rng, kind, columns)


def aggregate(rng: Random, columns: Sequence[Column], *, inexact: bool) -> tuple[str, str, bool]:
    """An aggregate, the kind of its value, and whether that is exact."""
    if inexact and rng.random() < 0.1:
        function = rng.choice(("stddev_samp", "var_pop", "skewness"))
        return f"{function}({leaf(rng, 'int', columns)})", "double", False
    kind = kind_of(rng, columns)
    number = kind_of(rng, columns, ("int", "decimal", "double"))
    value = scalar(rng, kind, columns, 1)
    text, made = rng.choice(
        (
            ("count(*)", "bigint"),
            (f"count({value})", "bigint"),
            (f"count(DISTINCT {value})", "bigint"),
            (f"min({value})", kind),
            (f"max({value})", kind),
            (f"sum({scalar(rng, number, columns, 1)})", {"int": "bigint"}.get(number, number)),
            (f"avg({leaf(rng, 'int', columns)})", "double"),
            (f"sum(DISTINCT {leaf(rng, 'int', columns)})", "bigint"),
            (f"bool_or({leaf(rng, 'boolean', columns)})", "boolean"),
            (f"percentile({leaf(rng, 'int', columns)}, 0.5)", "double"),
            (f"count_if({condition(rng, columns, 1)})", "bigint"),
        )
    )
    if rng.random() < 0.2:
        text += f" FILTER (WHERE {condition(rng, columns, 1)})"
    return text, made, True


def window(rng: Random, columns: Sequence[Column], total: Sequence[str]) -> tuple[str, str]:
    """A window function and its kind. Where ties would matter it has an order by all columns, so that only equal rows
    are ties."""
    parts = rng.sample([column.text for column in columns], min(len(columns), rng.choice((0, 1, 1, 2))))
    partition = f"PARTITION BY {', '.join(parts)} " if parts else ""
    kind = kind_of(rng, columns)
    value = leaf(rng, kind, columns)
    order = f"ORDER BY {rng.choice(total)}{rng.choice(('', ' DESC', ' NULLS LAST'))}"
    wholly = f"ORDER BY {', '.join(total)}"
    rows = f"ROWS BETWEEN {rng.choice(('UNBOUNDED', '2'))} PRECEDING AND {rng.choice(('CURRENT ROW', '1 FOLLOWING'))}"
    number = leaf(rng, "int", columns)
    return rng.choice(
        (
            (f"rank() OVER ({partition}{order})", "int"),
            (f"dense_rank() OVER ({partition}{order})", "int"),
            (f"percent_rank() OVER ({partition}{order})", "double"),
            (f"count({value}) OVER ({partition}{order})", "bigint"),
            (f"count(*) OVER ({partition.strip()})", "bigint"),
            (f"max({value}) OVER ({partition.strip()})", kind),
            (f"sum({number}) OVER ({partition}{order})", "bigint"),
            (f"row_number() OVER ({partition}{wholly})", "int"),
            (f"lag({value}) OVER ({partition}{wholly})", kind),
            (f"lead({value}, 2) OVER ({partition}{wholly})", kind),
            (f"ntile(3) OVER ({partition}{wholly})", "int"),
            (f"sum({number}) OVER ({partition}{wholly} {rows})", "bigint"),
            (f"first_value({value}) OVER ({partition}{wholly})", kind),
            (f"min({value}) OVER ({partition}{wholly} {rows})", kind),
        )
    )

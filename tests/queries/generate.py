"""Random SQL over small tables, the same for the same seed.

Every query has one answer, whatever the order in which rows come: doubles are multiples of a quarter, so that their
sums are exact; functions that depend on an order (`row_number`, `lag`, `LIMIT`) have one by all columns; what is not
exact (deviations) stands in the outermost list only. Some queries raise, by an overflow or a division by zero: then a
flow must raise too. Such expressions stand in lists only, where no rewriting decides whether a row meets them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from . import expressions
from .expressions import Column, orderable
from .small_tables import EMPTY, TABLES

MOST_DEPTH = 2
JOINS = ("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL OUTER JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")
SETS = ("UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL")
# Only these kinds are keys of joins and groups: the others are rare there, and doubles have two zeros.
KEYS = ("int", "bigint", "string", "date", "decimal", "boolean", "timestamp")


@dataclass(frozen=True, slots=True)
class Select:
    """A query with the columns that it gives; ``ordered``: by all of them."""

    text: str
    columns: tuple[Column, ...]
    ordered: bool = False


@dataclass(frozen=True, slots=True)
class Relation:
    """What may stand behind FROM."""

    text: str
    columns: tuple[Column, ...]


def random_query(seed: int) -> Select:
    return Generator(seed).query()


class Generator:
    def __init__(self, seed: int) -> None:
        self._rng = Random(f"query {seed}")
        self._names = 0

    def query(self) -> Select:
        """A whole query, sometimes with common table expressions, an order or a limit."""
        if self._rng.random() < 0.15:
            return self._with_common_table()
        return self._ordered(self._select(MOST_DEPTH, outermost=True))

    def _with_common_table(self) -> Select:
        """A common table expression that is used twice."""
        table = self._select(1)
        name = self._name("common")
        sides = [self._named(name, table.columns) for _ in range(2)]
        joined = self._join(*sides)
        body = self._body(joined, depth=1, outermost=False)
        return self._ordered(Select(f"WITH {name} AS ({table.text}) {body.text}", body.columns))

    def _ordered(self, made: Select) -> Select:
        names = [column.text for column in made.columns]
        if self._rng.random() > 0.35 or not all(orderable(column) and column.exact for column in made.columns):
            return made
        # Random directions, for each its own place of nulls.
        order = [f"{name}{self._rng.choice(('', ' DESC', ' NULLS LAST', ' DESC NULLS FIRST'))}" for name in names]
        limit = f" LIMIT {self._rng.choice((0, 1, 5, 20, 1000))}" if self._rng.random() < 0.5 else ""
        text = f"SELECT * FROM ({made.text}) ORDER BY {', '.join(order)}{limit}"
        return Select(text, made.columns, ordered=True)

    def _select(self, depth: int, *, outermost: bool = False) -> Select:
        if depth and self._rng.random() < 0.15:
            return self._set_operation(depth - 1)
        return self._body(self._relation(depth), depth=depth, outermost=outermost)

    def _set_operation(self, depth: int) -> Select:
        first = self._relation(depth)
        kinds = [expressions.kind_of(self._rng, first.columns, KEYS) for _ in range(self._rng.randint(1, 3))]
        sides = [self._list(relation, kinds) for relation in (first, self._relation(depth))]
        operation = self._rng.choice(SETS)
        names = tuple(Column(f"s{number}", kind) for number, kind in enumerate(kinds))
        return Select(f"({sides[0]}) {operation} ({sides[1]})", names)

    def _list(self, relation: Relation, kinds: Sequence[str]) -> str:
        items = ", ".join(
            f"{expressions.scalar(self._rng, kind, relation.columns)} AS s{number}" for number, kind in enumerate(kinds)
        )
        return f"SELECT {items} FROM {relation.text}{self._where(relation, 0)}"

    # FROM

    def _relation(self, depth: int) -> Relation:
        """Tables, joins of them, and queries in their place."""
        first = self._leaf(depth)
        for _ in range(self._rng.choice((0, 0, 1, 1, 2) if depth else (0, 0, 0, 1))):
            first = self._join(first, self._leaf(depth - 1 if depth else 0))
        return first

    def _leaf(self, depth: int) -> Relation:
        if depth and self._rng.random() < 0.3:
            made = self._select(depth - 1)
            return self._named(f"({made.text})", made.columns)
        return self._table()

    def _table(self) -> Relation:
        """One without rows now and then."""
        table = EMPTY if self._rng.random() < 0.08 else self._rng.choice([name for name in TABLES if name != EMPTY])
        return self._named(table, TABLES[table])

    def _named(self, text: str, columns: Sequence[Column]) -> Relation:
        name = self._name("r")
        return Relation(f"{text} AS {name}", tuple(column.of(name) for column in columns))

    def _name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def _join(self, left: Relation, right: Relation) -> Relation:
        pairs = [(a.text, b.text) for a in left.columns for b in right.columns if a.kind == b.kind and a.kind in KEYS]
        how = self._rng.choice(JOINS)
        if not pairs:
            return left
        chosen = self._rng.sample(pairs, min(len(pairs), self._rng.choice((1, 1, 1, 2))))
        equal = self._rng.choice(("=", "=", "=", "=", "<=>"))
        on = " AND ".join(f"{a} {equal} {b}" for a, b in chosen)
        if self._rng.random() < 0.25:
            on += f" AND {expressions.compared(self._rng, [*left.columns, *right.columns])}"
        columns = left.columns if "SEMI" in how or "ANTI" in how else (*left.columns, *right.columns)
        return Relation(f"{left.text} {how} {right.text} ON {on}", columns)

    # WHERE

    def _where(self, relation: Relation, depth: int) -> str:
        conditions = []
        if self._rng.random() < 0.3:
            conditions.append(expressions.condition(self._rng, relation.columns))
        if depth and self._rng.random() < 0.35:
            conditions.append(self._subquery_condition(relation))
        return f" WHERE {' AND '.join(conditions)}" if conditions else ""

    def _subquery_condition(self, relation: Relation) -> str:
        """EXISTS, IN, or a comparison with a scalar; the inner table sees the outer one by an equality at most."""
        inner = self._table()
        pairs = [(a, b) for a in relation.columns for b in inner.columns if a.kind == b.kind and a.kind in KEYS]
        if not pairs:
            return "true"
        outer_key, inner_key = self._rng.choice(pairs)
        inside = expressions.condition(self._rng, inner.columns)
        match self._rng.randrange(5):
            case 0 | 1:
                residue = ""
                if self._rng.random() < 0.4:
                    a, b = self._rng.choice(pairs)
                    residue = f" AND {a.text} <> {b.text}"
                maybe = self._rng.choice(("EXISTS", "NOT EXISTS"))
                where = f"{inner_key.text} = {outer_key.text}{residue} AND {inside}"
                return f"{maybe} (SELECT 1 FROM {inner.text} WHERE {where})"
            case 2 | 3:
                maybe = self._rng.choice(("IN", "IN", "NOT IN"))
                return f"{outer_key.text} {maybe} (SELECT {inner_key.text} FROM {inner.text} WHERE {inside})"
            case _:
                correlated = f" WHERE {inner_key.text} = {outer_key.text}" if self._rng.random() < 0.5 else ""
                a, b = self._rng.choice(pairs)
                function = self._rng.choice(("min", "max"))
                return f"{a.text} >= (SELECT {function}({b.text}) FROM {inner.text}{correlated})"

    # SELECT

    def _body(self, relation: Relation, *, depth: int, outermost: bool) -> Select:
        shapes: list[Callable[[Relation, str, bool], Select]] = [self._plain, self._grouped, self._window]
        (shape,) = self._rng.choices([*shapes, self._distinct], (2, 3, 2, 1))
        return shape(relation, self._where(relation, depth), outermost)

    def _plain(self, relation: Relation, where: str, outermost: bool) -> Select:
        items, columns = [], []
        for number in range(self._rng.randint(1, 5)):
            kind = expressions.kind_of(self._rng, relation.columns)
            risky = outermost and self._rng.random() < 0.15
            make = expressions.risky if risky else expressions.scalar
            items.append(f"{make(self._rng, kind, relation.columns)} AS c{number}")
            columns.append(Column(f"c{number}", kind))
        return Select(f"SELECT {', '.join(items)} FROM {relation.text}{where}", tuple(columns))

    def _distinct(self, relation: Relation, where: str, _: bool) -> Select:
        kinds = [expressions.kind_of(self._rng, relation.columns, KEYS) for _ in range(self._rng.randint(1, 3))]
        items = [expressions.scalar(self._rng, kind, relation.columns) for kind in kinds]
        columns = tuple(Column(f"d{number}", kind) for number, kind in enumerate(kinds))
        listed = ", ".join(f"{item} AS {column.text}" for item, column in zip(items, columns, strict=True))
        return Select(f"SELECT DISTINCT {listed} FROM {relation.text}{where}", columns)

    def _grouped(self, relation: Relation, where: str, outermost: bool) -> Select:
        """Groups by nothing, by expressions, or by sets of columns."""
        keys: list[str] = []
        columns: list[Column] = []
        for number in range(self._rng.choice((0, 1, 1, 2, 3))):
            kind = expressions.kind_of(self._rng, relation.columns, KEYS)
            key = expressions.scalar(self._rng, kind, relation.columns, self._rng.choice((0, 0, 2)))
            # A number alone would be the place of a column in the list.
            if key not in keys and expressions.mentions(key, relation.columns):
                keys.append(key)
                columns.append(Column(f"g{number}", kind))
        items = [f"{key} AS {column.text}" for key, column in zip(keys, columns, strict=True)]
        for number in range(self._rng.randint(1, 4)):
            text, kind, exact = expressions.aggregate(self._rng, relation.columns, inexact=outermost)
            items.append(f"{text} AS a{number}")
            columns.append(Column(f"a{number}", kind, exact))
        having = f" HAVING count(*) > {self._rng.randint(0, 3)}" if self._rng.random() < 0.2 else ""
        text = f"SELECT {', '.join(items)} FROM {relation.text}{where}{self._group_by(keys)}{having}"
        return Select(text, tuple(columns))

    def _group_by(self, keys: list[str]) -> str:
        if not keys:
            return ""
        listed = ", ".join(keys)
        match self._rng.randrange(8):
            case 0:
                return f" GROUP BY ROLLUP ({listed})"
            case 1:
                return f" GROUP BY CUBE ({listed})"
            case 2:
                return f" GROUP BY GROUPING SETS (({listed}), ({keys[0]}), ())"
            case _:
                return f" GROUP BY {listed}"

    def _window(self, relation: Relation, where: str, outermost: bool) -> Select:
        chosen = self._rng.sample(relation.columns, min(len(relation.columns), self._rng.randint(1, 4)))
        items = [f"{column.text} AS w{number}" for number, column in enumerate(chosen)]
        columns = [Column(f"w{number}", column.kind) for number, column in enumerate(chosen)]
        total = [column.text for column in relation.columns if orderable(column)]
        for number in range(self._rng.randint(1, 2)):
            text, kind = expressions.window(self._rng, relation.columns, total)
            items.append(f"{text} AS v{number}")
            columns.append(Column(f"v{number}", kind))
        return Select(f"SELECT {', '.join(items)} FROM {relation.text}{where}", tuple(columns))

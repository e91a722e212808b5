"""Random flows of one to three operators, the same for the same seed."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Literal, get_args

import pyarrow as pa
import pyarrow.types as pat

from .data import KEY_TYPES, VALUE_TYPES, Column, Input
from .steps import Agg, Branch, Case, Combine, Distinct, Group, How, Join, Map, Repartition, Sort, SortBy, Step

# Joins of heavy hitters grow fast; comparing more rows than these would take most of a test's time.
MOST_ROWS = 12_000
AMPLE_BYTES = 1 << 28
MEETING: dict[pa.DataType, tuple[pa.DataType, ...]] = {
    pa.int16(): (pa.int32(), pa.int64()),
    pa.int32(): (pa.int16(), pa.int64()),
    pa.int64(): (pa.int16(), pa.int32()),
    pa.float32(): (pa.float64(),),
    pa.float64(): (pa.float32(),),
}
_SORTS: tuple[
    Literal["asc", "desc", "asc_nulls_first", "asc_nulls_last", "desc_nulls_first", "desc_nulls_last"], ...
] = ("asc", "desc", "asc_nulls_first", "asc_nulls_last", "desc_nulls_first", "desc_nulls_last")
_OPERATORS = {
    "join": 6,
    "group": 5,
    "sort": 5,
    "distinct": 2,
    "intersect": 2,
    "subtract": 2,
    "union": 2,
    "repartition": 1,
}


def random_case(seed: int) -> Case:
    return _Generator(seed).case()


class _Generator:
    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._rng = Random(seed)
        self._inputs: list[Input] = []
        self._names = 0
        self._budget = 0  # operators that may still be added

    def case(self) -> Case:
        rng = self._rng
        self._budget = rng.choice((1, 1, 2, 2, 3))
        first = self._input(self._size())
        steps: list[Step] = []
        columns, rows = first.columns, first.rows
        while self._budget > 0:
            step, columns, rows = self._step(columns, rows, not steps)
            steps.append(step)
            if rng.random() < 0.2:
                step, columns = self._map(columns)
                steps.append(step)
                rows *= 2 if step.kind == "twice" else 1
        hosts = rng.randint(1, 3)
        return Case(
            self._seed,
            tuple(self._inputs),
            Branch(0, tuple(steps)),
            columns,
            hosts,
            rng.randint(hosts, 6),
            rng.randint(1, 6),
            rng.choice((1, 7, 60, 500, 4000)) if rows < 300 else rng.choice((60, 500, 4000)),
            # Every few flows have so little memory that their rows go to disk, or their senders have to wait.
            rng.choice((AMPLE_BYTES, AMPLE_BYTES, 4_000, 60_000)),
            rng.random() < 0.5,
        )

    # -- inputs

    def _size(self) -> int:
        rng = self._rng
        return rng.choice(
            (0, 1, rng.randint(2, 40), rng.randint(2, 40), *(rng.randint(40, 500) for _ in range(5)), 2500)
        )

    def _input(self, rows: int) -> Input:
        """Some key columns, some amounts, and a column that the keys determine."""
        rng = self._rng
        keys = [self._column("k", rng.choice(list(KEY_TYPES.values())), True) for _ in range(rng.choice((1, 1, 2, 3)))]
        amounts = [self._column("v", rng.choice(VALUE_TYPES), False) for _ in range(rng.randint(1, 2))]
        of_keys = replace(self._column("d", pa.string(), True), determined_by=tuple(key.name for key in keys))
        return self._add(rows, (*keys, *amounts, of_keys))

    def _add(self, rows: int, columns: tuple[Column, ...], values: int | None = None, like: int | None = None) -> Input:
        rng = self._rng
        if values is None:
            values = rng.choice((1, 2, 6, 14, 40, 300))
        hitter = rng.choice((0.0, 0.0, rng.uniform(0.3, 0.8)))
        nulls = rng.choice((0.0, 0.1, 0.4))
        made = Input(self._seed * 8 + len(self._inputs), rows, columns, values, nulls, hitter, like)
        self._inputs.append(made)
        return made

    def _column(self, prefix: str, kind: pa.DataType, is_key: bool) -> Column:
        self._names += 1
        return Column(f"{prefix}{self._names}", kind, is_key)

    # -- steps

    def _step(self, columns: tuple[Column, ...], rows: int, first: bool) -> tuple[Step, tuple[Column, ...], int]:
        rng = self._rng
        self._budget -= 1
        weights = dict(_OPERATORS)
        if not all(column.comparable for column in columns):
            for name in ("distinct", "intersect", "subtract", "union"):
                weights.pop(name)
        kind = rng.choices(list(weights), list(weights.values()))[0]
        match kind:
            case "join":
                return self._join(columns, rows)
            case "group":
                step, made = self._group(columns)
                return step, made, rows
            case "sort":
                keys = tuple(SortBy(column.name, rng.choice(_SORTS)) for column in self._some(columns, 3))
                return Sort(keys), columns, rows
            case "distinct":
                return Distinct(), columns, rows
            case "repartition":
                return Repartition(tuple(column.name for column in self._some(columns, 2))), columns, rows
            case "union":
                right, more = self._alike(columns, first)
                return Combine("union", right), tuple(replace(c, determined_by=()) for c in columns), rows + more
            case _:
                right, _ = self._alike(columns, first)
                return Combine("intersect" if kind == "intersect" else "subtract", right), columns, rows

    def _some(self, columns: tuple[Column, ...], most: int) -> list[Column]:
        """Columns that can be compared, in any order."""
        good = [column for column in columns if column.comparable]
        return self._rng.sample(good, self._rng.randint(1, min(most, len(good))))

    def _join(self, columns: tuple[Column, ...], rows: int) -> tuple[Step, tuple[Column, ...], int]:
        rng = self._rng
        how: How = rng.choice(get_args(How))
        lefts = self._some(columns, 2)
        by_name = rng.random() < 0.6
        rights = [self._partner(left, by_name) for left in lefts]
        amount = self._column("v", rng.choice(VALUE_TYPES), False)
        of_keys = replace(self._column("d", pa.string(), True), determined_by=tuple(key.name for key in rights))
        values = rng.choice((2, 6, 14, 40, 300))
        data = self._add(rng.choice((0, 1, 5, 30, 30, 60, 60)), (*rights, amount, of_keys), values)
        # The first values are shared by all inputs, so a hitter on both sides is likely to meet itself.
        meet = 1 if how in ("left_semi", "left_anti") else data.rows * (data.hitter + (1 - data.hitter) / values)
        if all(pat.is_boolean(key.type) for key in rights):
            meet = data.rows
        while rows * meet > MOST_ROWS and data.rows > 2:
            meet /= 2
            data = replace(data, rows=data.rows // 2)
            self._inputs[-1] = data
        branch = Branch(len(self._inputs) - 1)
        theirs = data.columns
        if self._budget > 0 and rng.random() < 0.3:
            self._budget -= 1
            branch, theirs = self._right_side(branch, theirs, rights)
        step = Join(branch, tuple((a.name, b.name) for a, b in zip(lefts, rights, strict=True)), how)
        return step, _joined(columns, theirs, step), max(rows, data.rows, int(rows * max(1.0, meet)))

    def _partner(self, left: Column, by_name: bool) -> Column:
        """A key that meets this one; sometimes of another type, which Spark casts."""
        kind = left.type
        if self._rng.random() < 0.2:
            kind = self._rng.choice(MEETING.get(kind, (kind,)))
        return Column(left.name, kind, True) if by_name else self._column("k", kind, True)

    def _right_side(
        self, branch: Branch, columns: tuple[Column, ...], keys: list[Column]
    ) -> tuple[Branch, tuple[Column, ...]]:
        """A side of a join that is itself an operator's output."""
        if self._rng.random() < 0.4:
            return replace(branch, steps=(Distinct(),)), columns
        step, made = self._group(columns, keys)
        return replace(branch, steps=(step,)), made

    def _alike(self, columns: tuple[Column, ...], first: bool) -> tuple[Branch, int]:
        """Another input with the same types; of the same rows in part, where these still are those of an input."""
        made = tuple(self._column("o", column.type, column.is_key) for column in columns)
        data = self._add(self._size() // 2, made, like=0 if first else None)
        branch = Branch(len(self._inputs) - 1)
        if self._budget > 0 and self._rng.random() < 0.3:
            self._budget -= 1
            branch = replace(branch, steps=(Distinct(),))
        return branch, data.rows

    def _group(self, columns: tuple[Column, ...], keys: list[Column] | None = None) -> tuple[Group, tuple[Column, ...]]:
        chosen = keys if keys is not None else [] if self._rng.random() < 0.08 else self._some(columns, 2)
        names = {key.name for key in chosen}
        made = [self._aggregate(columns, names) for _ in range(self._rng.randint(1, 4))]
        if not chosen:  # something for a next step to compare
            rows = self._column("a", pa.int64(), False)
            made.append((Agg("count", ("*",), rows.name), rows))
        kept = [column for key in chosen for column in columns if column.name == key.name]
        return Group(tuple(key.name for key in chosen), tuple(agg for agg, _ in made)), (*kept, *(c for _, c in made))

    def _aggregate(self, columns: tuple[Column, ...], keys: set[str]) -> tuple[Agg, Column]:
        rng = self._rng
        numbers = [column for column in columns if column.summable]
        flat = [column for column in columns if not pat.is_nested(column.type)]
        sure = [column for column in columns if column.determined_by and keys >= set(column.determined_by)]
        kinds = ["count", "count", "countDistinct", "min", "max", "collect_list"]
        kinds += ["sum", "avg", "moment", "percentile", "median"] if numbers else []
        kinds += ["first"] * 4 if sure else []
        alias = self._column("a", pa.int64(), False)
        number = rng.choice(numbers) if numbers else columns[0]
        match rng.choice(kinds):
            case "count":
                of = rng.choice(["*", *(column.name for column in columns)])
                return Agg("count", (of,), alias.name), alias
            case "countDistinct":
                return Agg("countDistinct", tuple(c.name for c in self._some(columns, 2)), alias.name), alias
            case "sum":
                return Agg("sum", (number.name,), alias.name), _sum(alias, number)
            case "avg":
                return Agg("avg", (number.name,), alias.name), _mean(alias, number)
            case "moment":
                name = rng.choice(("var_samp", "var_pop", "stddev_samp", "stddev_pop", "variance", "stddev"))
                return Agg(name, (number.name,), alias.name), replace(alias, type=pa.float64(), exact=False)
            case "median":
                return Agg("median", (number.name,), alias.name), replace(alias, type=pa.float64(), exact=False)
            case "percentile":
                share = rng.choice((0.0, 0.1, 0.25, 0.9, 1.0))
                return Agg("percentile", (number.name,), alias.name, share), replace(
                    alias, type=pa.float64(), exact=False
                )
            case "collect_list":
                of_type = rng.choice(flat)
                listed = pa.list_(pa.field("element", of_type.type, nullable=False))
                return Agg("collect_list", (of_type.name,), alias.name), replace(
                    alias, type=listed, exact=of_type.exact
                )
            case "first":
                of = rng.choice(sure).name
                return Agg("first", (of,), alias.name, rng.random() < 0.5), replace(
                    alias, type=pa.string(), is_key=True
                )
            case extreme:
                chosen = rng.choice(flat)
                made = replace(chosen, name=alias.name, determined_by=())
                return Agg(extreme, (chosen.name,), alias.name), made

    def _map(self, columns: tuple[Column, ...]) -> tuple[Map, tuple[Column, ...]]:
        kind: Literal["twice", "drop nulls", "mark nulls"] = self._rng.choice(("twice", "drop nulls", "mark nulls"))
        name = self._rng.choice(columns).name
        if kind == "mark nulls":
            columns = (*columns, self._column("m", pa.bool_(), True))
        return Map(kind, name, columns), columns


def _sum(alias: Column, of: Column) -> Column:
    if pat.is_decimal(of.type):
        return replace(alias, type=pa.decimal128(min(38, of.type.precision + 10), of.type.scale))
    return alias if pat.is_integer(of.type) else replace(alias, type=pa.float64(), exact=False)


def _mean(alias: Column, of: Column) -> Column:
    if pat.is_decimal(of.type):
        precision, scale = min(38, of.type.precision + 4), min(38, of.type.scale + 4)
        return replace(alias, type=pa.decimal128(precision, scale))
    return replace(alias, type=pa.float64(), exact=False)


def _joined(left: tuple[Column, ...], right: tuple[Column, ...], step: Join) -> tuple[Column, ...]:
    """The columns of a join's result, in Spark's order."""
    if step.how in ("left_semi", "left_anti"):
        right = ()
    if not step.by_name:
        return left + right
    keys = {name for name, _ in step.on}
    mine, theirs = ({column.name: column for column in side} for side in (left, right))
    first = [_key(mine[name], theirs.get(name, mine[name]), step.how) for name, _ in step.on]
    return (*first, *(c for c in left if c.name not in keys), *(c for c in right if c.name not in keys))


def _key(mine: Column, theirs: Column, how: How) -> Column:
    """The one column for a key of both sides: that of the side whose rows all stay, or the wider type of both."""
    if how not in ("right", "full"):
        return mine
    widest = theirs.type
    if how == "full" and mine.type != theirs.type:
        widest = max(mine.type, theirs.type, key=lambda kind: kind.bit_width)
    return replace(mine, type=widest, is_key=True)

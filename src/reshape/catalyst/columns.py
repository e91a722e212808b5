"""Rows as an operator wants them: columns by number, expressions computed by Spark in a source or by Arrow in hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from reshape.catalyst.errors import LeftToSpark
from reshape.catalyst.gateway import Attribute, Gateway, attributes_of, plan_of
from reshape.catalyst.rows import FlowRows, Rows, SparkRows, UnionRows
from reshape.expressions.errors import NotExact
from reshape.expressions.rows import Computed, Expanded, Kept
from reshape.expressions.translate import translate
from reshape.expressions.tree import ColumnRef, Expression, Literal
from reshape.operators.first_rows import FirstRows
from reshape.plan.analysis import kind, scala_list, unnamed, words_of
from reshape.plan.nodes import MapNode, Node, OperatorNode, SourceNode, UnionNode
from reshape.plan.tree import Tree
from reshape.plan.types import to_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# The one column of rows that are only counted.
_MARK = "row"

# Makes a DataFrame of a flow's tree.
Launch = Callable[[Tree], "DataFrame"]


@dataclass(frozen=True)
class Columns:
    """A tree, where the attributes of its rows are, and where the expressions are that were asked for."""

    tree: Tree
    numbers: dict[int, int]
    asked: tuple[int, ...]
    computed: int = 0  # how many columns at the end are there for the expressions alone


@dataclass(frozen=True)
class Finished:
    """A flow, and which of its columns are the attributes of the rows, one after the other."""

    tree: Tree
    numbers: tuple[int, ...]


class Names:
    """Columns of a flow are told apart by name: one that another column has already gets a number behind it. Catalyst's
    ids would differ each time the same query is planned."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._given: dict[int, str] = {}

    def of(self, attribute: Attribute, text: str = "") -> str:
        """``text``: what people call it, where its own name says less."""
        if attribute.id not in self._given:
            self._given[attribute.id] = self.fresh(text or attribute.name)
        return self._given[attribute.id]

    def fresh(self, text: str) -> str:
        """For a column that is no attribute."""
        name, number = text, 1
        while name.lower() in self._taken:
            number += 1
            name = f"{text}'{number}"
        self._taken.add(name.lower())
        return name


class Shaping:
    """Brings rows into the shape that an operator wants. ``chain`` ends a flow below another one."""

    def __init__(self, gateway: Gateway, chain: Launch) -> None:
        self.gateway = gateway
        self.names = Names()
        self._chain = chain
        self._finished: dict[int, tuple[Rows, Finished]] = {}

    def attributes(self, rows: Rows) -> tuple[Attribute, ...]:
        return attributes_of(rows.plan) if isinstance(rows, SparkRows) else rows.attributes

    def columns(self, rows: Rows, expressions: Sequence[Any], *, keep: bool) -> Columns:
        """The rows with a column for each expression, beside all attributes if they are to be kept."""
        if not isinstance(rows, SparkRows):
            try:
                return self._in_hosts(rows, expressions, keep)
            except NotExact:
                pass  # Spark computes them on the flow's result, which another flow then reads
        return self._in_source(self.plan(rows, self._chain), expressions, keep)

    def only(self, rows: FlowRows, attributes: Sequence[Attribute]) -> Columns:
        """The rows with these attributes and no other column."""
        numbers = [rows.number(attribute) for attribute in attributes]
        schema, used = rows.tree.schema, sorted(set(numbers))
        if len(used) == len(schema):
            return Columns(rows.tree, dict(rows.numbers), tuple(numbers))
        picked = tuple(ColumnRef(number, schema.field(number).type) for number in used)
        tree = _mapped(rows.tree, Computed(pa.schema([schema.field(number) for number in used]), picked))
        return Columns(tree, {}, tuple(used.index(number) for number in numbers))

    def projected(self, rows: FlowRows, named: Sequence[Any]) -> FlowRows:
        """A Project in the hosts; raises NotExact."""
        attributes = tuple(Attribute.of(one.toAttribute()) for one in named)
        numbers: dict[int, int] = {}
        new: list[tuple[Attribute, Expression]] = []
        for one, attribute in zip(named, attributes, strict=True):
            inner = unnamed(one)
            if kind(inner) == "AttributeReference" and int(inner.exprId().id()) in rows.numbers:
                numbers[attribute.id] = rows.numbers[int(inner.exprId().id())]
            else:
                new.append((attribute, self._translated(inner, rows)))
        if not new:
            return replace(rows, attributes=attributes, numbers=numbers)
        passed = sorted(set(numbers.values()))
        schema = rows.tree.schema
        expressions: list[Expression] = [ColumnRef(number, schema.field(number).type) for number in passed]
        fields = [schema.field(number) for number in passed]
        places = {identity: passed.index(number) for identity, number in numbers.items()}
        for attribute, expression in new:
            places[attribute.id] = len(fields)
            fields.append(pa.field(self.names.of(attribute), expression.type, attribute.nullable))
            expressions.append(expression)
        tree = _mapped(rows.tree, Computed(pa.schema(fields), tuple(expressions)))
        return FlowRows(tree, attributes, places, rows.enough)

    def filtered(self, rows: FlowRows, condition: Any) -> FlowRows:
        """A Filter in the hosts; raises NotExact."""
        predicate = self._translated(condition, rows)
        kept = _mapped(rows.tree, Kept(rows.tree.schema, predicate, words_of(condition)))
        return replace(rows, tree=kept, enough=None)

    def expanded(self, rows: FlowRows, node: Any) -> FlowRows:
        """An Expand in the hosts; raises NotExact."""
        attributes = attributes_of(node)
        lists = tuple(
            tuple(self._translated(expression, rows) for expression in scala_list(each))
            for each in scala_list(node.projections())
        )
        fields = [
            pa.field(self.names.of(attribute), expression.type)
            for attribute, expression in zip(attributes, lists[0], strict=True)
        ]
        if any([expression.type for expression in each] != [field.type for field in fields] for each in lists):
            raise NotExact("an expansion", "its rows differ in type")
        tree = _mapped(rows.tree, Expanded(pa.schema(fields), lists))
        return FlowRows(tree, attributes, {attribute.id: place for place, attribute in enumerate(attributes)})

    def finished(self, rows: FlowRows | UnionRows) -> Finished:
        """The flow that gives these rows; the same one each time."""
        if id(rows) not in self._finished:
            finished = self._finish(rows)
            if rows.enough is not None:
                tree = _mapped(finished.tree, FirstRows(finished.tree.schema, rows.enough))
                finished = replace(finished, tree=tree)
            self._finished[id(rows)] = (rows, finished)
        return self._finished[id(rows)][1]

    def _finish(self, rows: FlowRows | UnionRows) -> Finished:
        if isinstance(rows, UnionRows):
            return Finished(self._united(rows, (), keep=True).tree, tuple(range(len(rows.attributes))))
        schema, node = rows.tree.schema, rows.tree.node
        numbers = tuple(rows.number(attribute) for attribute in rows.attributes)
        if numbers == tuple(range(len(schema))) or (isinstance(node, OperatorNode) and not node.spec.exact):
            return Finished(rows.tree, numbers)  # it would give all of its columns anyway
        shown = numbers or (0,)
        picked = tuple(ColumnRef(number, schema.field(number).type) for number in shown)
        names = [self.names.of(attribute) for attribute in rows.attributes] or schema.names[:1]
        fields = [schema.field(number).with_name(name) for number, name in zip(shown, names, strict=True)]
        return Finished(_mapped(rows.tree, Computed(pa.schema(fields), picked)), tuple(range(len(numbers))))

    def trees(self, rows: Rows) -> list[Tree]:
        """The flows that Spark's part, if there is one, reads."""
        if isinstance(rows, FlowRows):
            return [self.finished(rows).tree]
        if isinstance(rows, UnionRows) and all(isinstance(branch, FlowRows) for branch in rows.branches):
            return [self.finished(rows).tree]
        parts = rows.branches if isinstance(rows, UnionRows) else rows.children
        return [tree for part in parts for tree in self.trees(part)]

    def plan(self, rows: Rows, launch: Launch) -> Any:
        """Rows as a part of Spark's plan, with flows launched below it; attributes keep their ids."""
        if isinstance(rows, SparkRows):
            if not rows.children:
                return rows.plan
            return self.gateway.with_children(rows.plan, [self.plan(child, launch) for child in rows.children])
        if isinstance(rows, UnionRows) and any(isinstance(branch, SparkRows) for branch in rows.branches):
            return self.gateway.union([self.plan(branch, launch) for branch in rows.branches])
        finished = self.finished(rows)
        result = plan_of(launch(finished.tree))
        columns = attributes_of(result)
        numbered = zip(finished.numbers, rows.attributes, strict=True)
        named = [self._as_before(columns[number], attribute) for number, attribute in numbered]
        return self.gateway.project(named, result)

    def _as_before(self, column: Attribute, attribute: Attribute) -> Any:
        """A column of a flow's result under the name and id that the plan knows it by."""
        return self.gateway.alias(column.jvm, attribute.name, like=attribute.jvm)

    def _translated(self, expression: Any, rows: FlowRows) -> Expression:
        return translate(expression, rows.numbers, self.gateway.facts)

    def _in_hosts(self, rows: FlowRows | UnionRows, expressions: Sequence[Any], keep: bool) -> Columns:
        if isinstance(rows, UnionRows):
            return self._united(rows, expressions, keep=keep)
        asked = [self._translated(expression, rows) for expression in expressions]
        if all(isinstance(one, ColumnRef) for one in asked):
            numbers = tuple(one.number for one in asked if isinstance(one, ColumnRef))
            return Columns(rows.tree, dict(rows.numbers), numbers)
        return self._laid_out(rows, asked, self._named(expressions), keep)

    def _named(self, expressions: Iterable[Any]) -> list[str]:
        return [
            self.names.of(Attribute.of(one)) if kind(one) == "AttributeReference" else self.names.fresh(words_of(one))
            for one in expressions
        ]

    def _laid_out(self, rows: FlowRows, asked: Sequence[Expression], names: Sequence[str], keep: bool) -> Columns:
        """Attributes in their order (if kept), then what was asked for and is no column of the rows."""
        schema = rows.tree.schema
        kept = rows.attributes if keep else ()
        numbers = [rows.number(attribute) for attribute in kept]
        fields = [
            schema.field(number).with_name(self.names.of(attribute))
            for number, attribute in zip(numbers, kept, strict=True)
        ]
        columns: list[Expression] = [ColumnRef(number, schema.field(number).type) for number in numbers]
        places = []
        for one, name in zip(asked, names, strict=True):
            if one not in columns:
                columns.append(one)
                fields.append(pa.field(name, one.type))
            places.append(columns.index(one))
        if not columns:  # rows that are only counted
            columns, fields = [Literal(True, pa.bool_())], [pa.field(_MARK, pa.bool_())]
        tree = _mapped(rows.tree, Computed(pa.schema(fields), tuple(columns)))
        where = {attribute.id: place for place, attribute in enumerate(kept)}
        return Columns(tree, where, tuple(places), len(columns) - len(kept))

    def _in_source(self, plan: Any, expressions: Sequence[Any], keep: bool) -> Columns:
        output = attributes_of(plan)
        ids = [attribute.id for attribute in output]
        plain = [int(one.exprId().id()) if kind(one) == "AttributeReference" else None for one in expressions]
        if all(one in ids for one in plain):
            asked = tuple(ids.index(one) for one in plain if one is not None)
            return Columns(self._source(plan, output), {one: ids.index(one) for one in ids}, asked)
        return self._laid_in_source(plan, expressions, self._named(expressions), keep)

    def _laid_in_source(self, plan: Any, expressions: Sequence[Any], fresh: Sequence[str], keep: bool) -> Columns:
        """As `_laid_out`, by Spark."""
        output = attributes_of(plan)
        ids = [attribute.id for attribute in output]
        named: list[Any] = [attribute.jvm for attribute in output] if keep else []
        names = [self.names.of(attribute) for attribute in output] if keep else []
        kept, places = len(named), []
        for expression, name in zip(expressions, fresh, strict=True):
            same = next((n for n, other in enumerate(named) if other.semanticEquals(expression)), len(named))
            places.append(same)
            if same == len(named):
                named.append(expression)
                names.append(name)
        if not named:
            return Columns(self._read(self.gateway.project([self.gateway.mark()], plan), [_MARK]), {}, ())
        aliased = [one if kind(one) == "AttributeReference" else self.gateway.alias(one, "c") for one in named]
        tree = self._read(self.gateway.project(aliased, plan), names)
        return Columns(tree, {one: n for n, one in enumerate(ids[:kept])}, tuple(places), len(named) - kept)

    def _source(self, plan: Any, output: Sequence[Attribute]) -> Tree:
        if not output:
            return self._read(self.gateway.project([self.gateway.mark()], plan), [self.names.fresh("row")])
        return self._read(plan, [self.names.of(attribute) for attribute in output])

    def _read(self, plan: Any, names: Sequence[str]) -> Tree:
        tree = Tree.reading(self.gateway.dataframe(plan).toDF(*names))
        wanted = [field.dataType for field in tree.sources[0].schema]
        for field, mine, theirs in zip(tree.schema, to_spark(tree.schema), wanted, strict=True):
            if mine.dataType != theirs:
                raise LeftToSpark(f"column {field.name!r} is {theirs.simpleString()}, which flows do not carry")
        return tree

    def _united(self, rows: UnionRows, expressions: Sequence[Any], *, keep: bool) -> Columns:
        """All branches in one layout, one union node over two of them after the other."""
        keep = keep or not expressions  # rows without any column could not be counted
        names = self._named(expressions)
        parts = []
        for branch in rows.branches:
            if isinstance(branch, FlowRows):
                asked = [self._translated(expression, branch) for expression in expressions]
                parts.append(self._laid_out(branch, asked, names, keep))
            else:
                parts.append(self._laid_in_source(self.plan(branch, self._chain), expressions, names, keep))
        first, *others = parts
        tree = first.tree
        for other in others:
            if other.tree.schema.types != tree.schema.types or other.asked != first.asked:
                raise LeftToSpark("branches of a union have differing types")
            fields = [
                mine.with_nullable(mine.nullable or theirs.nullable)
                for mine, theirs in zip(tree.schema, other.tree.schema, strict=True)
            ]
            left, right, sources = tree.beside(other.tree)
            schema = pa.schema(fields)
            tree = Tree(UnionNode(_as(left, schema), _as(right, schema), schema), sources)
        return replace(first, tree=tree)


def _mapped(tree: Tree, function: Computed | Expanded | Kept | FirstRows) -> Tree:
    return Tree(MapNode(tree.node, function, function.schema), tree.sources)


def _as(node: Node, schema: pa.Schema) -> Node:
    """A side of a union under the union's own schema: names and nullability may differ."""
    match node:
        case UnionNode():
            return UnionNode(_as(node.left, schema), _as(node.right, schema), schema)
        case MapNode() if isinstance(node.function, Computed):
            return MapNode(node.child, replace(node.function, schema=schema), schema)
        case SourceNode() if node.schema.names == schema.names:
            return replace(node, schema=schema)
        case _:
            raise LeftToSpark("a branch of a union has a shape of its own")

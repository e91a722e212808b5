"""A flow with its grouping keys, as PySpark's GroupedData."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from reshape.errors import FlowError
from reshape.kernels.keys import check_keys
from reshape.operators.group_by import GroupBySpec
from reshape.operators.group_map import GroupMapSpec
from reshape.plan.group_functions import Conversion, Form, UserGroupFunction
from reshape.plan.resolve import NotSupported, ResolvedGrouping, UserColumn, resolve_grouping
from reshape.plan.sendable import check_sendable, function_name
from reshape.plan.tree import Tree
from reshape.plan.two_sided import column_number, refuse_twice
from reshape.plan.types import to_arrow

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, GroupedData
    from pyspark.sql.types import StructType

    from reshape.flows import Flow


class GroupedFlow:
    """A flow with its grouping keys; `agg`, `count`, `sum` and so on make a flow of it again.

    >>> sorted(reshape.flow(orders).groupBy("shop").count().collect())[0]
    Row(shop=0, count=100)
    """

    def __init__(self, flow: Flow, keys: Sequence[str | Column]) -> None:
        self._flow = flow
        self._keys = tuple(keys)

    def agg(self, *expressions: Column | UserColumn | dict[str, str]) -> Flow:
        """Compute aggregates: PySpark's, a dict from column to function name, or your own (`reshape.aggregate`)."""
        if not expressions:
            raise FlowError("agg: name at least one aggregate")
        users = [(place, one) for place, one in enumerate(expressions) if isinstance(one, UserColumn)]
        plain: list[Any] = [one for one in expressions if not isinstance(one, UserColumn)]
        for _, user in users:
            check_sendable(user.function, f"aggregate: {type(user.function).__name__}")
        if plain:
            return self._grouped(lambda grouped: grouped.agg(*plain), users)
        flow = self._grouped(lambda grouped: grouped.count(), users, only_users=True)
        return flow

    def count(self) -> Flow:
        """Count the rows of each group."""
        return self._grouped(lambda grouped: grouped.count())

    def sum(self, *columns: str) -> Flow:
        """Compute the sums of these columns, or of all numeric ones."""
        return self._grouped(lambda grouped: grouped.sum(*columns))

    def avg(self, *columns: str) -> Flow:
        """Compute the means of these columns, or of all numeric ones."""
        return self._grouped(lambda grouped: grouped.avg(*columns))

    mean = avg

    def min(self, *columns: str) -> Flow:
        """Compute the least values of these columns, or of all numeric ones."""
        return self._grouped(lambda grouped: grouped.min(*columns))

    def max(self, *columns: str) -> Flow:
        """Compute the greatest values of these columns, or of all numeric ones."""
        return self._grouped(lambda grouped: grouped.max(*columns))

    def applyInPandas(self, func: Callable[..., Any], schema: str | StructType) -> Flow:  # noqa: N802
        """Call a function with the rows of each group as a `pandas.DataFrame`, as PySpark's `applyInPandas`."""
        return self._applied("applyInPandas", func, schema)

    def applyInArrow(self, func: Callable[..., Any], schema: str | StructType) -> Flow:  # noqa: N802
        """Call a function with the rows of each group as a `pyarrow.Table`, as PySpark's `applyInArrow`."""
        return self._applied("applyInArrow", func, schema)

    def _applied(self, what: str, func: Callable[..., Any], schema: str | StructType) -> Flow:
        """What PySpark makes of the call says what the function takes, and what is wrong with it."""
        from pyspark.sql.types import StructType

        tree = self._flow._tree
        keys = tuple(column_number(tree, key, "groupBy") for key in self._keys)
        check_keys(what, tree.schema, keys)
        source = tree.input()
        named = [source.column(key) for key in keys]
        check_sendable(func, f"{what}: the function {function_name(func)}")
        plan = source.ask(what, lambda df: getattr(df.groupBy(*named), what)(func, schema))
        made = StructType.fromJson(json.loads(plan.schema().json()))
        form = Form(int(plan.functionExpr().evalType()))
        function = UserGroupFunction(func, form, keys, made, Conversion.of(source.df))
        label = f"{what}({function_name(func)})"
        return self._flow._with(tree.through(GroupMapSpec(tree.schema, keys, function, to_arrow(made), label)))

    def _grouped(
        self,
        ask: Callable[[GroupedData], DataFrame],
        users: Sequence[tuple[int, UserColumn]] = (),
        *,
        only_users: bool = False,
    ) -> Flow:
        tree = self._flow._tree
        resolved = resolve_grouping(tree.input(), self._keys, ask, users)
        if only_users:  # the count was there for the analyzer, which takes no grouping without an aggregate
            resolved = replace(resolved, aggregates=tuple(resolved.aggregates[place] for place, _ in users))
        names = [*resolved.key_names, *(aggregate.name for aggregate in resolved.aggregates)]
        refuse_twice("agg", names, "the result would have more than one", "give one of them another alias")
        child = _projected(tree, resolved)
        spec = GroupBySpec(_named(child.schema, resolved), resolved.keys, resolved.aggregates)
        _ = spec.output_schema  # raises here, not in a task, what types do not allow
        return self._flow._with(child.through(spec))

    def __repr__(self) -> str:
        return f"GroupedFlow[{', '.join(map(str, self._keys))}] of {self._flow!r}"


def _projected(tree: Tree, resolved: ResolvedGrouping) -> Tree:
    """The tree with only the keys and the inputs of aggregates."""
    if resolved.projection is None:
        return tree
    if resolved.projection:
        return tree.select(resolved.projection, resolved.texts)
    from pyspark.sql import functions as F  # noqa: N812

    # Rows without any column could not be counted.
    return tree.select(((F.lit(True), "__row"),), ("nothing but a mark for each row",))


def _named(schema: pa.Schema, resolved: ResolvedGrouping) -> pa.Schema:
    """The input with key columns under the names of the result."""
    for number, name in zip(resolved.keys, resolved.key_names, strict=True):
        if schema.field(number).name == name:
            continue
        if resolved.keys.count(number) > 1:
            raise NotSupported("groupBy", f"column {schema.field(number).name} under two names", "use it once as a key")
        schema = schema.set(number, schema.field(number).with_name(name))
    return schema

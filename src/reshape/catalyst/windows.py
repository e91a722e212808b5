"""A Window of Spark's plan as the window operator: what it reads is projected below it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reshape.catalyst.aggregations import Inputs
from reshape.catalyst.columns import Shaping
from reshape.catalyst.errors import LeftToSpark
from reshape.catalyst.gateway import Attribute
from reshape.catalyst.rows import FlowRows, Rows, has_flow
from reshape.catalyst.window_functions import WindowReader
from reshape.kernels.keys import check_keys
from reshape.kernels.ordering import Ordering, SortKey
from reshape.operators.window import WindowSpec
from reshape.plan.analysis import kind, plain_key, scala_list


def windowed(shaping: Shaping, node: Any, child: Rows) -> Rows:
    """Raises what makes a window Spark's."""
    if kind(node.child()) == "WindowGroupLimit" and not has_flow(child):
        raise LeftToSpark("top-n of a partition: a filter follows, and Spark drops the other rows before it moves any")
    inputs, gateway = Inputs(), shaping.gateway
    segment_trees = gateway.spark.conf.get("spark.sql.window.segmentTree.enabled") == "true"
    reader = WindowReader(inputs.number, gateway.if_else_null, gateway.facts, segment_trees)
    named = scala_list(node.windowExpressions())
    added = tuple(Attribute.of(one.toAttribute()) for one in named)
    functions = [reader.function(one, shaping.names.of(attribute)) for one, attribute in zip(named, added, strict=True)]
    keys = [inputs.number(plain_key(key)) for key in scala_list(node.partitionSpec())]
    order = [
        SortKey(
            inputs.number(one.child()),
            str(one.direction().sql()) == "ASC",
            str(one.nullOrdering().sql()) == "NULLS FIRST",
        )
        for one in scala_list(node.orderSpec())
    ]
    columns = shaping.columns(child, inputs.expressions, keep=True)
    schema, number = columns.tree.schema, columns.asked.__getitem__
    ordering = Ordering(tuple(replace(key, column=number(key.column)) for key in order)) if order else None
    spec = WindowSpec(schema, tuple(map(number, keys)), ordering, tuple(one.renumbered(number) for one in functions))
    check_keys("window", schema, spec.keys if ordering is None else (*spec.keys, *ordering.columns))
    numbers = {**columns.numbers, **{attribute.id: len(schema) + n for n, attribute in enumerate(added)}}
    return FlowRows(columns.tree.through(spec), (*shaping.attributes(child), *added), numbers)

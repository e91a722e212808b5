"""A global Sort of Spark's plan as a range-based sort."""

from __future__ import annotations

from typing import Any

from reshape.catalyst.columns import Shaping
from reshape.catalyst.rows import FlowRows, Rows
from reshape.kernels.keys import check_keys
from reshape.kernels.ordering import Ordering, SortKey
from reshape.operators.sort import SortSpec
from reshape.plan.analysis import scala_list


def ordered(shaping: Shaping, node: Any, child: Rows) -> Rows:
    """Expressions in the order are hidden columns. Raises what makes a sort Spark's."""
    orders = scala_list(node.order())
    columns = shaping.columns(child, [order.child() for order in orders], keep=True)
    keys = tuple(
        SortKey(number, str(order.direction().sql()) == "ASC", str(order.nullOrdering().sql()) == "NULLS FIRST")
        for number, order in zip(columns.asked, orders, strict=True)
    )
    ordering = Ordering(keys)
    check_keys("sort", columns.tree.schema, ordering.columns)
    spec = SortSpec(columns.tree.schema, ordering, columns.computed)
    return FlowRows(columns.tree.through(spec), shaping.attributes(child), columns.numbers)

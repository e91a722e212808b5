"""Python functions in Spark's plan, run in hosts: of rows (mapInArrow, mapInPandas), of whole groups, and the
repartitioning below a function."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from reshape.catalyst.columns import Shaping
from reshape.catalyst.errors import LeftToSpark, reason_of
from reshape.catalyst.gateway import Attribute, attributes_of
from reshape.catalyst.rows import FlowRows, Rows, SparkRows, has_flow
from reshape.kernels.keys import check_keys
from reshape.operators.group_map import GroupMapSpec
from reshape.operators.relay import RelaySpec
from reshape.plan.analysis import kind, scala_list
from reshape.plan.group_functions import Conversion, Form, NotSendable, UserGroupFunction, function_of
from reshape.plan.map_functions import MapForm, UserMapFunction, is_by_batches, is_ordered
from reshape.plan.nodes import MapNode, OperatorNode
from reshape.plan.tree import Tree
from reshape.plan.types import to_arrow

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

MAPS = ("MapInArrow", "MapInPandas")

# How a function of rows is called: for any pieces of them, or once for all rows of a partition.
Called = Literal["by batches", "by partitions"]

_CALLS = {
    "MapInArrow": "mapInArrow",
    "MapInPandas": "mapInPandas",
    "FlatMapGroupsInArrow": "applyInArrow",
    "FlatMapGroupsInPandas": "applyInPandas",
}

_SETTINGS = (
    "spark.sql.pyspark.udf.profiler",
    "spark.sql.execution.arrow.useLargeVarTypes",
)
_ANY_ITERABLE = "spark.sql.execution.pythonUDF.mapInBatch.legacy.acceptAnyIterable.enabled"


def label(node: Any) -> str:
    """As people wrote it."""
    return f"{_CALLS[kind(node)]}({_udf(node).name()})"


def called(node: Any) -> Called | None:
    """How the function of a MapInArrow or MapInPandas is called; None where only Spark can call it."""
    try:
        return "by batches" if is_by_batches(_function(node)) else "by partitions"
    except Exception as error:  # said of the function itself, where it is translated
        reason_of(error, kind(node))
        return None


def mapped(shaping: Shaping, node: Any, child: FlowRows) -> FlowRows:
    """A function behind an operator. Raises what makes it Spark's."""
    function, spark = _function(node), shaping.gateway.spark
    _check_settings(shaping)
    arguments = attributes_of(node.child())
    columns = shaping.only(child, arguments)
    most = int(str(spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch")))
    schema, output = _promised(node), attributes_of(node)
    gives = _given(shaping, schema, output)
    user = UserMapFunction(
        function,
        MapForm(int(_udf(node).evalType())),
        columns.asked,
        tuple(attribute.name for attribute in arguments),
        schema,
        gives,
        Conversion.in_session(spark),
        most if most > 0 else 1 << 30,
        str(spark.conf.get(_ANY_ITERABLE, "true")).lower() == "true",
    )
    node_of = MapNode(columns.tree.node, user, gives, is_ordered(function))
    return _rows(Tree(node_of, columns.tree.sources), output)


def repartitioned(shaping: Shaping, node: Any, child: Rows, how: str) -> Rows:
    """Rows by their keys, below a function that is called so. Raises what makes it Spark's."""
    keys = scala_list(node.partitionExpressions())
    if not keys or any(kind(key) == "SortOrder" for key in keys):
        raise LeftToSpark("rows are not brought together by keys")
    if how == "by partitions" and node.optNumPartitions().isDefined():
        raise LeftToSpark("its function is called once for each of so many partitions")
    if how == "by partitions" and not has_flow(child):
        raise LeftToSpark("its function needs all rows of a key in one call, so that none could move to a helper")
    columns = shaping.columns(child, keys, keep=True)
    schema = columns.tree.schema
    check_keys("repartition", schema, columns.asked)
    tree = columns.tree.through(RelaySpec(schema, columns.asked))
    if how == "by partitions":
        assert isinstance(tree.node, OperatorNode)
        tree = replace(tree, node=replace(tree.node, tuning=(("strategy", "none"),)))
    return FlowRows(tree, shaping.attributes(child), columns.numbers)


def grouped(shaping: Shaping, node: Any, child: Rows) -> Rows:
    """A function of whole groups. Raises what makes it Spark's."""
    function = _function(node)
    _check_settings(shaping)
    keys, arguments = list(scala_list(node.groupingAttributes())), list(scala_list(_udf(node).children()))
    if isinstance(child, SparkRows):  # keys stand before all columns of the rows, and most are among these as well
        different = list({int(one.exprId().id()): one for one in [*keys, *arguments]}.values())
        child = SparkRows(shaping.gateway.project(different, child.plan), (child,) if has_flow(child) else ())
    columns = shaping.columns(child, [*keys, *arguments], keep=False)
    numbers, values = columns.asked[: len(keys)], columns.asked[len(keys) :]
    schema = _promised(node)
    names = [str(argument.name()) for argument in arguments]
    check_keys(_CALLS[kind(node)], columns.tree.schema, numbers)
    user = UserGroupFunction(
        function,
        Form(int(_udf(node).evalType())),
        numbers,
        schema,
        Conversion.in_session(shaping.gateway.spark),
        tuple(zip(values, names, strict=True)),
    )
    output = attributes_of(node)
    gives = _given(shaping, schema, output)
    return _rows(columns.tree.through(GroupMapSpec(columns.tree.schema, numbers, user, gives, label(node))), output)


def _given(shaping: Shaping, schema: StructType, output: Sequence[Attribute]) -> pa.Schema:
    """What a function promises, under the names that columns have in flows."""
    fields = zip(to_arrow(schema), output, strict=True)
    return pa.schema([field.with_name(shaping.names.of(attribute)) for field, attribute in fields])


def _rows(tree: Tree, output: tuple[Attribute, ...]) -> FlowRows:
    return FlowRows(tree, output, {attribute.id: place for place, attribute in enumerate(output)})


def _udf(node: Any) -> Any:
    return node.functionExpr()


def _function(node: Any) -> Any:
    if kind(node) in MAPS:
        if node.isBarrier():
            raise LeftToSpark("its tasks are to start together, as a barrier")
        if node.profile().isDefined():
            raise LeftToSpark("its tasks have a resource profile")
    try:
        return function_of(_udf(node))
    except NotSendable as error:
        raise LeftToSpark(str(error)) from None


def _check_settings(shaping: Shaping) -> None:
    """Raises where functions are called in a way that only Spark's workers know."""
    for setting in _SETTINGS:
        value = shaping.gateway.spark.conf.get(setting, None)
        if value is not None and value.lower() != "false":
            raise LeftToSpark(f"{setting} is {value}")


def _promised(node: Any) -> StructType:
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(node.schema().json()))

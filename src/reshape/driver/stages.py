"""What an action on a flow's result runs, as Spark's logical plans, made by few calls to the JVM.

PySpark's own methods would give the same plans, and have Spark analyze them step by step: five times, in 80 calls, a
tenth of what a small flow took.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from reshape.plan.analysis import dataframe_of
from reshape.plan.java_classes import CATALYST, java_classes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

ArrowFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_PLANS = f"{CATALYST}plans.logical."
_EXPRESSIONS = f"{CATALYST}expressions."


@dataclass(frozen=True, slots=True)
class Stage:
    """Rows that Spark would make of a plan; ``function`` is the JVM's object for what makes them in Python, last."""

    spark: SparkSession
    plan: Any
    function: Any

    @classmethod
    def of_barrier_tasks(cls, spark: SparkSession, tasks: int, function: ArrowFunction, schema: StructType) -> Stage:
        """So many tasks that start together; each gets a batch of one row, which only makes it exist."""
        numbers = java_classes(spark.sparkContext._gateway).object(f"{_PLANS}Range").apply(0, tasks, 1, tasks)
        return _mapped(spark, numbers, function, schema, barrier=True)

    def exchanged(self, partitions: int) -> Stage:
        """Each row goes to the partition whose number is in the first column."""
        java = java_classes(self.spark.sparkContext._gateway)
        number = java.named(f"{_EXPRESSIONS}DirectShufflePartitionID")(self.plan.output().head())
        plan = java.named(f"{_PLANS}RepartitionByExpression")(
            java.seq([number]), self.plan, java.named("scala.Some")(partitions), java.object("scala.None")
        )
        return Stage(self.spark, plan, self.function)

    def mapped(self, function: ArrowFunction, schema: StructType) -> Stage:
        """What the function makes of each partition's rows."""
        return _mapped(self.spark, self.plan, function, schema, barrier=False)

    def dataframe(self) -> DataFrame:
        return dataframe_of(self.spark, self.plan)


def _mapped(spark: SparkSession, plan: Any, function: ArrowFunction, schema: StructType, *, barrier: bool) -> Stage:
    """As PySpark's `mapInArrow` does it."""
    from pyspark.sql.udf import _wrap_function
    from pyspark.util import PythonEvalType

    java = java_classes(spark.sparkContext._gateway)
    session: Any = spark._jsparkSession
    rows = session.parseDataType(schema.json())
    wrapped = _wrap_function(spark.sparkContext, function, schema)
    call = java.named(f"{_EXPRESSIONS}PythonUDF")(
        function.__name__,
        wrapped,
        rows,
        plan.output(),
        PythonEvalType.SQL_MAP_ARROW_ITER_UDF,
        True,  # it gives the same rows every time, as far as Spark's optimizer is concerned
        java.object(f"{_EXPRESSIONS}NamedExpression").newExprId(),
    )
    output = java.object(f"{CATALYST}types.DataTypeUtils").toAttributes(rows)
    mapped = java.named(f"{_PLANS}MapInArrow")(call, output, plan, barrier, java.object("scala.None"))
    return Stage(spark, mapped, wrapped)

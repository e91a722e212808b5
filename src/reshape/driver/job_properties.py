"""Local properties of Spark's jobs: a scheduler pool, job tags and the like, which users set for their thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext

# Of the query that the thread was in the middle of; the jobs of a flow are not part of it.
_OF_A_QUERY = ("spark.sql.execution.id", "spark.sql.execution.root.id")


class JobProperties:
    """Those of the thread that makes this, for threads that run jobs on its behalf."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._properties: Any = self._java().getLocalProperties().clone()
        for name in _OF_A_QUERY:
            self._properties.remove(name)

    def use(self) -> None:
        """Give them to the thread that calls this."""
        self._java().setLocalProperties(self._properties.clone())

    def _java(self) -> Any:
        return self._context._jsc.sc()

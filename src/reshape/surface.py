"""PySpark's own methods for flows, by delegation: what a DataFrame has, a flow has, under the same name.

The methods are made of PySpark's classes when this is imported; `surface.pyi` beside it has their types, made by
`scripts/surface.py`. A method passes its call on to ``_passed_on``, which flows have.
"""

from __future__ import annotations

import inspect
from functools import wraps
from typing import Any

from pyspark.sql import DataFrame, GroupedData
from pyspark.sql.pandas.group_ops import PandasCogroupedOps

# What runs the query, or hands its rows on for somebody else to: by the result of the flow, all else by the DataFrame.
ACTIONS = frozenset(
    {
        "approxQuantile",
        "checkpoint",
        "corr",
        "cov",
        "createGlobalTempView",
        "createOrReplaceGlobalTempView",
        "createOrReplaceTempView",
        "createTempView",
        "crosstab",
        "first",
        "foreach",
        "foreachPartition",
        "head",
        "isEmpty",
        "localCheckpoint",
        "mergeInto",
        "pandas_api",
        "plot",
        "rdd",
        "registerTempTable",
        "show",
        "tail",
        "take",
        "toJSON",
        "toLocalIterator",
        "transpose",
        "writeStream",
        "writeTo",
    }
)


def _method(name: str, model: Any) -> Any:
    @wraps(model)
    def passed_on(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._passed_on(name, lambda on: getattr(on, name), args, kwargs)

    return passed_on


def _property(name: str, model: property) -> property:
    def passed_on(self: Any) -> Any:
        return self._passed_on(name, lambda on: lambda: getattr(on, name), (), {})

    return property(passed_on, doc=model.__doc__)


def _following(name: str, model: type) -> type:
    """A class with all public methods and properties of one of PySpark's."""
    members: dict[str, Any] = {}
    for member in (one for one in dir(model) if not one.startswith("_")):
        found = inspect.getattr_static(model, member)
        members[member] = _property(member, found) if isinstance(found, property) else _method(member, found)
    return type(name, (), {"__doc__": f"The surface of PySpark's `{model.__name__}`.", **members})


FrameSurface = _following("FrameSurface", DataFrame)
GroupedSurface = _following("GroupedSurface", GroupedData)
CogroupedSurface = _following("CogroupedSurface", PandasCogroupedOps)

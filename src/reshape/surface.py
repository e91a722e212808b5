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


# Spark counts the rows of a limit by 32 bits.
_MOST_ROWS = 2**31 - 1


def rows_wanted(name: str, *args: Any, **kwargs: Any) -> int | None:
    """How many rows are enough for an action that shows the first ones; None where it wants all, or PySpark refuses
    what it got."""
    match name:
        case "first" | "isEmpty":
            return 1
        case "head":
            wanted = (*args, *kwargs.values(), 1)[0]
        case "take":
            wanted = (*args, *kwargs.values(), None)[0]
        case "show":
            wanted = args[0] if args else kwargs.get("n", 20)
        case _:
            return None
    # One more than are shown: it says whether there are more.
    return wanted + (name == "show") if type(wanted) is int and 0 <= wanted < _MOST_ROWS else None


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

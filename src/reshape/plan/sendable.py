"""Functions of users travel to Spark's tasks; one that cannot is told apart when the flow is built."""

from __future__ import annotations

from typing import Any

from reshape.errors import FlowError


def check_sendable(function: Any, what: str) -> None:
    """Raises unless the function, with all that it holds, can be pickled."""
    from pyspark import cloudpickle

    try:
        cloudpickle.dumps(function)  # type: ignore[no-untyped-call]
    except Exception as error:  # anything that is in reach of the function may raise anything
        # PySpark's own note on sessions and DataFrames is long; its first sentence says what was met.
        cause = (str(error).strip().splitlines() or [""])[0].split(". ")[0]
        raise FlowError(
            f"{what} cannot be sent to Spark's tasks ({type(error).__name__}: {cause}). It, or something that it "
            "refers to, cannot be pickled: a connection, a lock, an open file, a SparkSession or a DataFrame. Make it "
            "inside the function, or pass plain values"
        ) from error


def function_name(function: Any) -> str:
    """What people call a function, also where ours calls it."""
    function = getattr(function, "function", function)
    return str(getattr(function, "__qualname__", None) or type(function).__qualname__).replace("<locals>.", "")

"""How long a flow may be needed: as long as Spark can run it.

A DataFrame that is made out of a flow's (``flow.toDF().select("k")``) knows nothing of it in Python, so Python's own
references do not tell. In the JVM every plan and every RDD that runs the flow's hosts refers to their function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from reshape.plan.java_classes import java_classes

if TYPE_CHECKING:
    from reshape.driver.stages import Stage


def runnable(hosts: Stage) -> Callable[[], bool]:
    """For the barrier stage: can the JVM still run it, or anything that is made of it?"""
    context = hosts.spark.sparkContext
    function: Any = java_classes(context._gateway).named("java.lang.ref.WeakReference")(hosts.function)

    def check() -> bool:
        if context._jsc is None:
            return False
        try:
            return not function.refersTo(None)  # asking for the object itself would keep it alive
        except (Py4JError, OSError):
            return False  # the JVM is gone

    return check

"""Classes of the JVM by their full names.

Py4J's way to a class asks the JVM for each part of its name (``jvm.org``, ``jvm.org.apache``, ...), some tenths of a
millisecond each; together a tenth of what a small query took to plan.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from py4j.java_gateway import JavaClass, JavaMember  # type: ignore[import-untyped]
from py4j.protocol import STATIC_PREFIX  # type: ignore[import-untyped]

CATALYST = "org.apache.spark.sql.catalyst."
_PYTHON_UTILS = "org.apache.spark.api.python.PythonUtils"


def static_method(beside: Any, name: str, method: str) -> Any:
    """A static method of the class of this name, in the JVM of the object ``beside``; nothing is asked before it is
    called, as Py4J would to find out whether there is one."""
    return JavaMember(method, None, f"{STATIC_PREFIX}{name}", beside._gateway_client)


class JavaClasses:
    """Of one JVM; Scala's objects are asked for once."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._objects: dict[str, Any] = {}

    def named(self, name: str) -> Any:
        """A class: called, it makes an instance; its attributes are static members."""
        return JavaClass(name, self._client)

    def object(self, name: str) -> Any:
        """Scala's object of this name."""
        if name not in self._objects:
            self._objects[name] = getattr(self.named(f"{name}$"), "MODULE$")
        return self._objects[name]

    def seq(self, items: Sequence[Any]) -> Any:
        """Scala's sequence of objects."""
        return self.named(_PYTHON_UTILS).toSeq(list(items))


_OF: weakref.WeakKeyDictionary[Any, JavaClasses] = weakref.WeakKeyDictionary()


def java_classes(gateway: Any) -> JavaClasses:
    """Of the JVM behind a Spark context's gateway. A new JVM has a new gateway."""
    if gateway not in _OF:
        _OF[gateway] = JavaClasses(gateway._gateway_client)
    return _OF[gateway]

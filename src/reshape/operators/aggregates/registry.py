"""Which aggregate a function of Spark is. Files of this package register theirs, so no list has to be kept."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from reshape.operators.aggregates.description import Aggregate

AnyAggregate = TypeVar("AnyAggregate", bound=type[Aggregate])


@dataclass(frozen=True, slots=True)
class Registered:
    """An aggregate, and what users write for it. ``takes_distinct``: it has a meaning for different values alone."""

    aggregate: type[Aggregate]
    written: str
    takes_distinct: bool


_BY_FUNCTION: dict[str, Registered] = {}


def spark_function(
    function: str, written: str, *, takes_distinct: bool = False
) -> Callable[[AnyAggregate], AnyAggregate]:
    """Registers an aggregate under the class that Spark's analyzer has for it: ``Average`` for avg and mean.

    Goes above ``@dataclass``, which makes a class with slots anew.
    """

    def register(aggregate: AnyAggregate) -> AnyAggregate:
        _BY_FUNCTION[function] = Registered(aggregate, written, takes_distinct)
        return aggregate

    return register


@cache
def registered() -> dict[str, Registered]:
    """All aggregates by Spark's function. Imports every file of the package, so only who reads queries asks for it."""
    package = importlib.import_module("reshape.operators.aggregates")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return dict(sorted(_BY_FUNCTION.items()))


def supported() -> str:
    """What a group-by can compute, as users write it."""
    return f"{', '.join(sorted(known.written for known in registered().values()))}, and reshape.aggregate(...)"

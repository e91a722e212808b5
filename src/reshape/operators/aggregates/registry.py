"""Which aggregate a function of Spark is. Files of this package register theirs, so no list has to be kept."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache
from typing import TypeVar

from reshape.operators.aggregates.description import Aggregate, SparkCall
from reshape.operators.aggregates.distinct import Distinct
from reshape.operators.aggregates.filtered import Filtered

AnyAggregate = TypeVar("AnyAggregate", bound=type[Aggregate])


_BY_FUNCTION: dict[str, type[Aggregate]] = {}


def spark_function(function: str) -> Callable[[AnyAggregate], AnyAggregate]:
    """Registers an aggregate under the class that Spark's optimizer has for it: ``Average`` for avg and mean.

    Goes above ``@dataclass``, which makes a class with slots anew.
    """

    def register(aggregate: AnyAggregate) -> AnyAggregate:
        _BY_FUNCTION[function] = aggregate
        return aggregate

    return register


@cache
def registered() -> dict[str, type[Aggregate]]:
    """All aggregates by Spark's function. Imports every file of the package, so only who reads queries asks for it."""
    package = importlib.import_module("reshape.operators.aggregates")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return dict(sorted(_BY_FUNCTION.items()))


def aggregate_of(function: str, call: SparkCall) -> Aggregate | None:
    """What a call of a function of Spark's means, of different values or of some rows alone where it says so; None for
    a function that nobody registered."""
    known = registered().get(function)
    if known is None:
        return None
    aggregate = known.of_call(call)
    if call.distinct:
        aggregate = Distinct(call.name, aggregate)
    condition = call.condition()
    return aggregate if condition is None else Filtered(call.name, aggregate, condition)

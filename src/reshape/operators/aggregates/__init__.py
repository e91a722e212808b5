"""The aggregates of a group-by, each from its description in `reshape.plan.aggregates`."""

from __future__ import annotations

import pyarrow as pa

from reshape.operators.aggregates.base import OPERATOR, AggregateLogic, Groups
from reshape.operators.aggregates.counts import CountDistinctLogic, CountLogic
from reshape.operators.aggregates.extremes import ExtremeLogic, FirstLogic
from reshape.operators.aggregates.lists import CollectListLogic, PercentileLogic
from reshape.operators.aggregates.moments import VarianceLogic
from reshape.operators.aggregates.sums import mean_logic, sum_logic
from reshape.operators.aggregates.user_defined import UserDefinedLogic
from reshape.plan import aggregates as plan

__all__ = ["OPERATOR", "AggregateLogic", "Groups", "columns_of", "logic_of"]


def columns_of(aggregate: plan.Aggregate) -> tuple[int, ...]:
    """The input columns that an aggregate reads."""
    match aggregate:
        case plan.CountAll():
            return ()
        case plan.CountDistinct(columns=columns) | plan.UserDefined(columns=columns):
            return columns
        case _:
            return (aggregate.column,)


def logic_of(aggregate: plan.Aggregate, schema: pa.Schema) -> AggregateLogic:  # noqa: PLR0912 - one case each
    """The logic of an aggregate over input of this schema; raises `UnsupportedAggregate` where a type does not fit."""
    fields = [schema.field(column) for column in columns_of(aggregate)]
    match aggregate:
        case plan.CountAll() | plan.Count():
            return CountLogic()
        case plan.Sum():
            return sum_logic(fields[0])
        case plan.Mean():
            return mean_logic(fields[0])
        case plan.Min():
            return ExtremeLogic(fields[0], "min")
        case plan.Max():
            return ExtremeLogic(fields[0], "max")
        case plan.VarSamp():
            return VarianceLogic(fields[0], sample=True, root=False)
        case plan.VarPop():
            return VarianceLogic(fields[0], sample=False, root=False)
        case plan.StddevSamp():
            return VarianceLogic(fields[0], sample=True, root=True)
        case plan.StddevPop():
            return VarianceLogic(fields[0], sample=False, root=True)
        case plan.CountDistinct():
            return CountDistinctLogic(fields)
        case plan.Median():
            return PercentileLogic(fields[0], (0.5,), as_list=False)
        case plan.Percentile():
            return PercentileLogic(fields[0], aggregate.percentages, aggregate.as_list)
        case plan.CollectList():
            return CollectListLogic(fields[0])
        case plan.First():
            return FirstLogic(fields[0], aggregate.ignore_nulls)
        case plan.UserDefined():
            if aggregate.names:
                fields = [field.with_name(name) for field, name in zip(fields, aggregate.names, strict=True)]
            return UserDefinedLogic(aggregate.name, fields, aggregate.function)

"""Variance and standard deviation: count, mean and sum of squared deviations, merged without loss (Chan et al.)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from reshape.operators.aggregates.base import AggregateLogic, Groups, as_doubles, nullable, present, unsupported
from reshape.operators.aggregates.description import Aggregate, OfColumn, SparkCall
from reshape.operators.aggregates.registry import spark_function


@dataclass(frozen=True, slots=True)
class _OfNumbers(OfColumn):
    @classmethod
    def of_call(cls, call: SparkCall) -> Aggregate:
        return cls(call.name, call.column(uncast=True))


@spark_function("VarianceSamp", "variance, var_samp")
@dataclass(frozen=True, slots=True)
class VarSamp(_OfNumbers):
    """Sample variance; null for one value."""

    def logic(self, fields: Sequence[pa.Field]) -> AggregateLogic:
        return VarianceLogic(fields[0], sample=True, root=False)


@spark_function("VariancePop", "var_pop")
@dataclass(frozen=True, slots=True)
class VarPop(_OfNumbers):
    """Population variance."""

    def logic(self, fields: Sequence[pa.Field]) -> AggregateLogic:
        return VarianceLogic(fields[0], sample=False, root=False)


@spark_function("StddevSamp", "stddev, stddev_samp")
@dataclass(frozen=True, slots=True)
class StddevSamp(_OfNumbers):
    """Sample standard deviation; null for one value."""

    def logic(self, fields: Sequence[pa.Field]) -> AggregateLogic:
        return VarianceLogic(fields[0], sample=True, root=True)


@spark_function("StddevPop", "stddev_pop")
@dataclass(frozen=True, slots=True)
class StddevPop(_OfNumbers):
    """Population standard deviation."""

    def logic(self, fields: Sequence[pa.Field]) -> AggregateLogic:
        return VarianceLogic(fields[0], sample=False, root=True)


class VarianceLogic(AggregateLogic):
    """Variance or its root, of a sample (null for one value) or of a population."""

    state_types = (pa.int64(), pa.float64(), pa.float64())
    output_type = pa.float64()

    def __init__(self, field: pa.Field, *, sample: bool, root: bool) -> None:
        if not (pat.is_integer(field.type) or pat.is_floating(field.type) or pat.is_decimal(field.type)):
            raise unsupported("stddev" if root else "variance", field)
        self._sample = sample
        self._root = root

    def update(self, columns: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        array, groups = present(columns[0], groups)
        values = as_doubles(array)
        with np.errstate(invalid="ignore"):  # infinities give NaN, as in Spark
            means = groups.sums(values) / np.maximum(groups.sizes, 1)
            deviations = groups.sums((values - means[groups.codes]) ** 2)
        return [pa.array(groups.sizes), pa.array(means), pa.array(deviations)]

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        counts, means, deviations = (as_doubles(state) for state in states)
        totals = groups.sums(counts)
        with np.errstate(invalid="ignore"):
            merged = groups.sums(counts * means) / np.maximum(totals, 1)
            # A part without values has a mean of 0 that must not count.
            apart = np.where(counts > 0, (means - merged[groups.codes]) ** 2, 0.0)
            spread = groups.sums(deviations + counts * apart)
        return [pa.array(totals.astype(np.int64)), pa.array(merged), pa.array(spread)]

    def finish(self, states: Sequence[pa.Array]) -> pa.Array:
        counts, deviations = states[0].to_numpy(), states[2].to_numpy()
        divisor = counts - 1 if self._sample else counts
        variance = deviations / np.maximum(divisor, 1)
        return nullable(np.sqrt(variance) if self._root else variance, divisor <= 0, pa.float64())

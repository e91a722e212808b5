"""Aggregates of pairs of numbers: covariance, correlation and linear regression."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from reshape.kernels.hashing import Mask
from reshape.operators.aggregates.base import AggregateLogic, Groups, as_doubles, complete, nullable, unsupported
from reshape.operators.aggregates.description import Aggregate, OfColumns, SparkCall
from reshape.operators.aggregates.moments import Doubles, grouped_means, merged_means
from reshape.operators.aggregates.registry import spark_function


@dataclass(frozen=True, slots=True)
class PairMoments:
    """Of each group: how many pairs it has, their means, and the sums of products of their deviations."""

    count: Doubles
    first_mean: Doubles
    second_mean: Doubles
    product: Doubles
    first_square: Doubles
    second_square: Doubles


@dataclass(frozen=True, slots=True)
class _OfPairs(OfColumns):
    """Of the rows where both columns have a value. Regressions name the dependent column first."""

    legacy: bool = False

    @classmethod
    def examples(cls) -> tuple[Aggregate, ...]:
        return (cls("result", (1, 0)),)

    @classmethod
    def of_call(cls, call: SparkCall) -> Aggregate:
        return cls(call.name, (call.column(0, uncast=True), call.column(1, uncast=True)))

    def logic(self, fields: Sequence[pa.Field]) -> AggregateLogic:
        return PairLogic(fields, self)

    @abstractmethod
    def value(self, of: PairMoments) -> tuple[Doubles, Mask]:
        """The value of each group that has pairs, and the groups where it is null."""


@dataclass(frozen=True, slots=True)
class _OfSample(_OfPairs):
    """One with a value that Spark had to divide by zero for; ``legacy``: that is NaN, not null."""

    @classmethod
    def of_call(cls, call: SparkCall) -> Aggregate:
        columns = (call.column(0, uncast=True), call.column(1, uncast=True))
        return cls(call.name, columns, legacy=not call.function.nullOnDivideByZero())


@spark_function("CovPopulation")
@dataclass(frozen=True, slots=True)
class CovarPop(_OfPairs):
    """Population covariance."""

    def value(self, of: PairMoments) -> tuple[Doubles, Mask]:
        return of.product / of.count, of.count < 0


@spark_function("CovSample")
@dataclass(frozen=True, slots=True)
class CovarSamp(_OfSample):
    """Sample covariance; null for one pair."""

    def value(self, of: PairMoments) -> tuple[Doubles, Mask]:
        covariance = of.product / np.maximum(of.count - 1, 1)
        single = of.count == 1
        return (np.where(single, np.nan, covariance), of.count < 0) if self.legacy else (covariance, single)


@spark_function("Corr")
@dataclass(frozen=True, slots=True)
class Corr(_OfSample):
    """Pearson's correlation; null for one pair, and where all values of a column are the same."""

    def value(self, of: PairMoments) -> tuple[Doubles, Mask]:
        spread = np.sqrt(of.first_square * of.second_square)
        single = of.count == 1
        if self.legacy:
            return np.where(single, np.nan, of.product / spread), (spread == 0) & ~single
        return of.product / spread, single | (spread == 0)


@spark_function("RegrR2")
@dataclass(frozen=True, slots=True)
class RegrR2(_OfPairs):
    """The square of the correlation; 1 where only the dependent column has a single value."""

    def value(self, of: PairMoments) -> tuple[Doubles, Mask]:
        correlation = of.product / np.sqrt(of.first_square * of.second_square)
        return np.where(of.first_square == 0, 1.0, correlation**2), of.second_square == 0


@spark_function("RegrSlope")
@dataclass(frozen=True, slots=True)
class RegrSlope(_OfPairs):
    """The slope of the line; null where all values of the independent column are the same."""

    def value(self, of: PairMoments) -> tuple[Doubles, Mask]:
        return of.product / of.second_square, of.second_square == 0


@spark_function("RegrIntercept")
@dataclass(frozen=True, slots=True)
class RegrIntercept(_OfPairs):
    """Where the line meets the axis; null where all values of the independent column are the same."""

    def value(self, of: PairMoments) -> tuple[Doubles, Mask]:
        return of.first_mean - of.product / of.second_square * of.second_mean, of.second_square == 0


@spark_function("RegrSXY")
@dataclass(frozen=True, slots=True)
class RegrSXY(_OfPairs):
    """The sum of products of deviations."""

    def value(self, of: PairMoments) -> tuple[Doubles, Mask]:
        return of.product, of.count < 0


class PairLogic(AggregateLogic):
    """Count, two means and three sums of products, merged without loss; null without pairs."""

    state_types = (pa.int64(),) + (pa.float64(),) * 5
    output_type = pa.float64()

    def __init__(self, fields: Sequence[pa.Field], of: _OfPairs) -> None:
        for field in fields:
            if not (pat.is_integer(field.type) or pat.is_floating(field.type) or pat.is_decimal(field.type)):
                raise unsupported(of.function_name(), field)
        self._of = of

    def update(self, columns: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        pairs, groups = complete(columns, groups)
        first, second = map(as_doubles, pairs)
        with np.errstate(all="ignore"):  # infinities give NaN, as in Spark
            means = [grouped_means(values, groups) for values in (first, second)]
            a, b = (values - mean[groups.codes] for values, mean in zip((first, second), means, strict=True))
            sums = [groups.sums(product) for product in (a * b, a * a, b * b)]
        return [pa.array(groups.sizes), *map(pa.array, (*means, *sums))]

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        counts, first, second, *products = (as_doubles(state) for state in states)
        with np.errstate(all="ignore"):
            means = [merged_means(values, counts, groups) for values in (first, second)]
            # A part without pairs has means of 0 that must not count.
            a, b = (
                np.where(counts > 0, values - mean[groups.codes], 0.0)
                for values, mean in zip((first, second), means, strict=True)
            )
            sums = [
                groups.sums(product + counts * apart)
                for product, apart in zip(products, (a * b, a * a, b * b), strict=True)
            ]
        return [pa.array(groups.sums(counts).astype(np.int64)), *map(pa.array, (*means, *sums))]

    def finish(self, states: Sequence[pa.Array]) -> pa.Array:
        counts, *rest = (as_doubles(state) for state in states)
        with np.errstate(all="ignore"):
            value, absent = self._of.value(PairMoments(counts, *rest))
        return nullable(value, (counts == 0) | absent, pa.float64())

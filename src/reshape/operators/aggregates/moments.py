"""Variance, standard deviation, skewness and kurtosis: count, mean and sums of powers of deviations from it, merged
without loss (Chan et al.)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from reshape.kernels.hashing import Mask
from reshape.operators.aggregates.base import AggregateLogic, Groups, as_doubles, nullable, present, unsupported
from reshape.operators.aggregates.description import Aggregate, OfColumn, SparkCall
from reshape.operators.aggregates.registry import spark_function

Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Moments:
    """Of each group: how many values it has, and the sums of the powers of their deviations from the mean."""

    count: Doubles
    second: Doubles
    third: Doubles
    fourth: Doubles


@dataclass(frozen=True, slots=True)
class _OfNumbers(OfColumn):
    """``legacy``: NaN in place of null where Spark would divide by zero (spark.sql.legacy.statisticalAggregate)."""

    legacy: bool = False
    # The highest power of deviations that the value needs.
    order: ClassVar[int] = 2

    @classmethod
    def of_call(cls, call: SparkCall) -> Aggregate:
        return cls(call.name, call.column(uncast=True), legacy=not call.function.nullOnDivideByZero())

    def logic(self, fields: Sequence[pa.Field]) -> AggregateLogic:
        return MomentsLogic(fields[0], self.function_name(), self.order, self.value, legacy=self.legacy)

    @staticmethod
    @abstractmethod
    def value(of: Moments) -> tuple[Doubles, Mask]:
        """The value of each group that has one, and the groups where it would be divided by zero."""


@spark_function("VarianceSamp")
@dataclass(frozen=True, slots=True)
class VarSamp(_OfNumbers):
    """Sample variance; null for one value."""

    @staticmethod
    def value(of: Moments) -> tuple[Doubles, Mask]:
        return of.second / np.maximum(of.count - 1, 1), of.count == 1


@spark_function("VariancePop")
@dataclass(frozen=True, slots=True)
class VarPop(_OfNumbers):
    """Population variance."""

    @staticmethod
    def value(of: Moments) -> tuple[Doubles, Mask]:
        return of.second / np.maximum(of.count, 1), of.count < 0


@spark_function("StddevSamp")
@dataclass(frozen=True, slots=True)
class StddevSamp(_OfNumbers):
    """Sample standard deviation; null for one value."""

    @staticmethod
    def value(of: Moments) -> tuple[Doubles, Mask]:
        return np.sqrt(of.second / np.maximum(of.count - 1, 1)), of.count == 1


@spark_function("StddevPop")
@dataclass(frozen=True, slots=True)
class StddevPop(_OfNumbers):
    """Population standard deviation."""

    @staticmethod
    def value(of: Moments) -> tuple[Doubles, Mask]:
        return np.sqrt(of.second / np.maximum(of.count, 1)), of.count < 0


@spark_function("Skewness")
@dataclass(frozen=True, slots=True)
class Skewness(_OfNumbers):
    """Null where all values are the same."""

    order: ClassVar[int] = 3

    @staticmethod
    def value(of: Moments) -> tuple[Doubles, Mask]:
        return np.sqrt(of.count) * of.third / np.sqrt(of.second**3), of.second == 0


@spark_function("Kurtosis")
@dataclass(frozen=True, slots=True)
class Kurtosis(_OfNumbers):
    """Excess kurtosis; null where all values are the same."""

    order: ClassVar[int] = 4

    @staticmethod
    def value(of: Moments) -> tuple[Doubles, Mask]:
        return of.count * of.fourth / of.second**2 - 3.0, of.second == 0


@spark_function("RegrReplacement")
@dataclass(frozen=True, slots=True)
class SquaredDeviations(_OfNumbers):
    """The sum of squared deviations, as Spark's optimizer has it for regr_sxx and regr_syy."""

    @classmethod
    def of_call(cls, call: SparkCall) -> Aggregate:
        return cls(call.name, call.column(uncast=True))

    @staticmethod
    def value(of: Moments) -> tuple[Doubles, Mask]:
        return of.second, of.count < 0


def grouped_means(values: Doubles, groups: Groups) -> Doubles:
    """The mean of each group. That of equal values is this value and no other: it is counted from the first of them,
    so that their deviations are zero, as Spark's are."""
    start = _starts(values, groups)
    return start + groups.sums(values - start[groups.codes]) / np.maximum(groups.sizes, 1)


def merged_means(means: Doubles, counts: Doubles, groups: Groups) -> Doubles:
    """The mean of each group, from those of its parts."""
    some = counts > 0  # a part without values has a mean of 0 that must not count
    if not some.all():
        means, counts, groups = means[some], counts[some], groups.only(some)
    start = _starts(means, groups)
    return start + groups.sums(counts * (means - start[groups.codes])) / np.maximum(groups.sums(counts), 1)


def _starts(values: Doubles, groups: Groups) -> Doubles:
    """The first value of each group, 0 where there is none."""
    first = groups.first_rows()
    return np.where(first >= 0, np.append(values, 0.0)[first], 0.0)


class MomentsLogic(AggregateLogic):
    """Anything that follows from the moments of a group; null without values."""

    output_type = pa.float64()

    def __init__(
        self,
        field: pa.Field,
        name: str,
        order: int,
        value: Callable[[Moments], tuple[Doubles, Mask]],
        *,
        legacy: bool = False,
    ) -> None:
        if not (pat.is_integer(field.type) or pat.is_floating(field.type) or pat.is_decimal(field.type)):
            raise unsupported(name, field)
        self._order = order
        self._value = value
        self._legacy = legacy
        self.state_types = (pa.int64(),) + (pa.float64(),) * order

    def update(self, columns: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        array, groups = present(columns[0], groups)
        values = as_doubles(array)
        with np.errstate(all="ignore"):  # infinities give NaN, as in Spark
            means = grouped_means(values, groups)
            apart = values - means[groups.codes]
            power, powers = apart, []
            for _ in range(2, self._order + 1):
                power = power * apart  # four times as fast as `apart**3`
                powers.append(groups.sums(power))
        return [pa.array(groups.sizes), pa.array(means), *map(pa.array, powers)]

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        counts, means, *powers = (as_doubles(state) for state in states)
        totals = groups.sums(counts)
        with np.errstate(all="ignore"):
            merged = merged_means(means, counts, groups)
            # A part without values has a mean of 0 that must not count.
            apart = np.where(counts > 0, means - merged[groups.codes], 0.0)
            second = powers[0] + counts * apart**2
            sums = [second]
            if self._order > 2:
                sums.append(powers[1] + 3 * apart * powers[0] + counts * apart**3)
            if self._order > 3:
                sums.append(powers[2] + 4 * apart * powers[1] + 6 * apart**2 * powers[0] + counts * apart**4)
        return [pa.array(totals.astype(np.int64)), pa.array(merged), *(pa.array(groups.sums(one)) for one in sums)]

    def finish(self, states: Sequence[pa.Array]) -> pa.Array:
        counts, _, *powers = (as_doubles(state) for state in states)
        with np.errstate(all="ignore"):
            value, by_zero = self._value(Moments(counts, *powers, *[counts] * (4 - self._order)))
        if self._legacy:
            value, by_zero = np.where(by_zero, np.nan, value), np.zeros_like(by_zero)
        return nullable(value, (counts == 0) | by_zero, pa.float64())

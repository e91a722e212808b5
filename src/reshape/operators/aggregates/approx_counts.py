"""approx_count_distinct: Spark's own HyperLogLog++, register by register, so that the answer is the one Spark gives.

A register holds the longest run of leading zeros among the hashes that fall to it. The state of a group is a list of
the registers that are not empty: a group with few values is small, and one with many is no larger than all registers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reshape.kernels.columns import Indices
from reshape.kernels.hashing import U64, UnsupportedKeyType
from reshape.kernels.xxhash import xxhash64
from reshape.operators.aggregates.base import AggregateLogic, Groups, present, unsupported
from reshape.operators.aggregates.description import Aggregate, OfColumn, SparkCall
from reshape.operators.aggregates.list_states import each_alone, flattened, listed
from reshape.operators.aggregates.registry import spark_function

Doubles = npt.NDArray[np.float64]

_RANK_BITS = 6
# So many bits number the registers at most: with the six of a rank they fit 32.
_MOST_BITS = 26
_HELPER = "org.apache.spark.sql.catalyst.util.HyperLogLogPlusPlusHelper$"
# Spark corrects the bias of an estimate by the mean of so many measured ones.
_NEIGHBOURS = 6
_LEAST_BITS, _LEAST_UNCORRECTED = 4, 19


@dataclass(frozen=True, slots=True)
class Corrections:
    """What Spark knows of estimates with so many registers: up to which count it counts empty registers, and by how
    much estimates of a given size are too large (estimates and biases, as measured)."""

    threshold: float = math.inf
    estimates: tuple[float, ...] = ()
    biases: tuple[float, ...] = ()

    @classmethod
    def of_spark(cls, function: Any, bits: int) -> Corrections:
        """Read from Spark's own tables; ``function`` is one of its objects."""
        if bits >= _LEAST_UNCORRECTED:
            return cls(-math.inf)
        loaded = function.getClass().getClassLoader().loadClass(_HELPER)
        tables = loaded.getField("MODULE$").get(None)
        place = bits - _LEAST_BITS
        thresholds, estimates, biases = tables.THRESHOLDS(), tables.RAW_ESTIMATE_DATA(), tables.BIAS_DATA()
        return cls(float(thresholds[place]), tuple(estimates[place]), tuple(biases[place]))


@spark_function("HyperLogLogPlusPlus")
@dataclass(frozen=True, slots=True)
class ApproxCountDistinct(OfColumn):
    """Different values that are not null, about: off by more than `deviation` for one group of three."""

    deviation: float = 0.05
    corrections: Corrections = Corrections()

    @classmethod
    def of_call(cls, call: SparkCall) -> Aggregate:
        deviation = float(call.function.relativeSD())
        bits = bits_for(deviation)
        if bits > _MOST_BITS:
            raise call.refused("use a relative standard deviation of 0.0002 or more")
        return cls(call.name, call.column(), deviation, Corrections.of_spark(call.function, bits))

    def logic(self, fields: Sequence[pa.Field]) -> AggregateLogic:
        return ApproxCountDistinctLogic(fields[0], bits_for(self.deviation), self.corrections)

    def text(self, names: Sequence[str]) -> str:
        return f"approx_count_distinct({names[0]})"


def bits_for(deviation: float) -> int:
    """How many bits of a hash number its register, as Spark has it."""
    return math.ceil(2.0 * math.log(1.106 / deviation) / math.log(2.0))


class ApproxCountDistinctLogic(AggregateLogic):
    """Registers with their ranks, the number of the register in the upper bits."""

    nullable: bool = False
    state_types = (pa.large_list(pa.uint32()),)
    output_type = pa.int64()

    def __init__(self, field: pa.Field, bits: int, corrections: Corrections) -> None:
        try:
            xxhash64(pa.array([], type=field.type))
        except UnsupportedKeyType:
            raise unsupported("approx_count_distinct", field) from None
        self._bits = bits
        self._registers = 1 << bits
        self._corrections = corrections

    def update(self, columns: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        values, groups = present(columns[0], groups)
        hashes = xxhash64(values)
        register = hashes >> np.uint64(64 - self._bits)
        # A bit that ends every run of zeros: there are no more than those that a register leaves.
        rest = (hashes << np.uint64(self._bits)) | np.uint64(1 << (self._bits - 1))
        return [self._highest(register << np.uint64(_RANK_BITS) | _leading_zeros(rest) + np.uint64(1), groups)]

    def merge(self, states: Sequence[pa.Array], groups: Groups) -> list[pa.Array]:
        entries, groups = flattened(states[0], groups)
        return [self._highest(entries.to_numpy().astype(np.uint64), groups)]

    def finish(self, states: Sequence[pa.Array]) -> pa.Array:
        entries, groups = flattened(states[0], each_alone(states[0]))
        ranks = (entries.to_numpy() & np.uint32((1 << _RANK_BITS) - 1)).astype(np.int64)
        empty = (self._registers - groups.sizes).astype(np.float64)
        estimate = self._scale() / (groups.sums(np.ldexp(1.0, -ranks)) + empty)
        with np.errstate(divide="ignore"):
            by_empty = self._registers * np.log(self._registers / empty)
        counted = (empty > 0) & ((by_empty <= self._corrections.threshold) | (estimate <= 2.5 * self._registers))
        corrected = np.where(estimate < 5.0 * self._registers, estimate - self._bias(estimate), estimate)
        return pa.array(np.floor(np.where(counted, by_empty, corrected) + 0.5).astype(np.int64))

    def _highest(self, entries: U64, groups: Groups) -> pa.Array:
        """The highest rank of each register of each group."""
        shift = np.uint64(self._bits + _RANK_BITS)
        packed = groups.codes.astype(np.uint64) << shift | entries
        packed.sort()
        is_last = np.ones(len(packed), dtype=np.bool_)
        np.not_equal(packed[1:] >> np.uint64(_RANK_BITS), packed[:-1] >> np.uint64(_RANK_BITS), out=is_last[:-1])
        packed = packed[is_last]
        lengths: Indices = np.bincount((packed >> shift).astype(np.int64), minlength=groups.count)
        kept = (packed & ((np.uint64(1) << shift) - np.uint64(1))).astype(np.uint32)
        return listed(pa.array(kept), lengths, pa.uint32())

    def _scale(self) -> float:
        """What the harmonic mean of the registers is multiplied by (alpha m², from the paper on HyperLogLog)."""
        alpha = {4: 0.673, 5: 0.697, 6: 0.709}.get(self._bits, 0.7213 / (1.0 + 1.079 / self._registers))
        return alpha * self._registers * self._registers

    def _bias(self, found: Doubles) -> Doubles:
        """By how much estimates are too large: the mean over the nearest that were measured."""
        known = np.array(self._corrections.estimates)
        if not len(known):
            return np.zeros_like(found)
        low = np.maximum(np.searchsorted(known, found) - _NEIGHBOURS + 1, 0)
        high = np.minimum(low + _NEIGHBOURS, len(known))
        while True:
            beyond = known[np.minimum(high, len(known) - 1)]
            nearer = (high < len(known)) & (
                (found - beyond) ** 2 < (found - known[np.minimum(low, len(known) - 1)]) ** 2
            )
            if not nearer.any():
                break
            low, high = low + nearer, high + nearer
        sums = np.concatenate([[0.0], np.cumsum(self._corrections.biases)])
        mean: Doubles = (sums[high] - sums[low]) / (high - low)
        return mean


def _leading_zeros(words: U64) -> U64:
    """Of words that are not zero."""
    zeros = np.zeros(len(words), dtype=np.uint64)
    for bits in (32, 16, 8, 4, 2, 1):
        low = words < np.uint64(1) << np.uint64(64 - bits)
        words = np.where(low, words << np.uint64(bits), words)
        zeros += low.astype(np.uint64) * np.uint64(bits)
    return zeros

"""Random draws as Spark SQL: a row's value follows from its id and a seed alone, so that neither the number of
partitions nor the order of tasks changes the data, and rows are made in the JVM while they are read.

All draws start from a hash of 64 bits, given as the name of a column or an expression.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from math import gcd

_BITS = 32
_ONE = 1 << _BITS
_LOW = _ONE - 1
# Beyond this rank the midpoint rule is off by less than one in 10,000, for exponents up to 1.
_HEAD = 64
_WEIGHT = 1 << 40  # turns the weights of a law into whole numbers
_GOLDEN = 0.618  # neighbours go far apart, and no short cycle brings them together again


@dataclass(frozen=True, slots=True)
class AliasTable:
    """Draws one of many values by weight in constant time (Walker's alias method).

    Slot i stands for values[i] when the coin is below thresholds[i], and for values[aliases[i]] otherwise.
    """

    values: tuple[int, ...]
    thresholds: tuple[int, ...]
    aliases: tuple[int, ...]

    @classmethod
    def of(cls, weights: Mapping[int, int]) -> AliasTable:
        values, size = tuple(weights), len(weights)
        total = sum(weights.values())
        if total <= 0 or min(weights.values()) < 0:
            raise ValueError(f"weights must not be negative and must have a positive sum, got {dict(weights)}")
        left = [weight * size for weight in weights.values()]  # a slot is full at `total`
        thresholds, aliases = [_ONE] * size, list(range(size))
        short = [slot for slot in range(size) if left[slot] < total]
        long = [slot for slot in range(size) if left[slot] > total]
        while short:
            slot = short.pop()
            donor = long[-1]
            thresholds[slot], aliases[slot] = left[slot] * _ONE // total, donor
            left[donor] -= total - left[slot]
            if left[donor] <= total:
                long.pop()
            if left[donor] < total:
                short.append(donor)
        return cls(values, tuple(thresholds), tuple(aliases))

    def shares(self) -> dict[int, float]:
        """How often each value is drawn."""
        parts = dict.fromkeys(self.values, 0)
        for slot, (threshold, alias) in enumerate(zip(self.thresholds, self.aliases, strict=True)):
            parts[self.values[slot]] += threshold
            parts[self.values[alias]] += _ONE - threshold
        return {value: part / _ONE / len(self.values) for value, part in parts.items()}

    def sql(self, bits: str) -> str:
        slot = uniform(len(self.values), bits)
        coin = f"({bits} & {_LOW}L)"
        chosen = f"IF({coin} < {_array(self.thresholds, 'L')}[{slot}], {slot}, {_array(self.aliases)}[{slot}])"
        return f"{_array(self.values)}[{chosen}]"


def bits(columns: str, seed: int, salt: str) -> str:
    """64 random bits for a row that these columns identify; draws with different salts are independent."""
    return f"xxhash64({columns}, {seed}L, '{salt}')"


def uniform(size: int, bits: str) -> str:
    """A whole number from 0 to size - 1."""
    return f"CAST(shiftright(shiftrightunsigned({bits}, {_BITS}) * {size}L, {_BITS}) AS INT)"


def choice(weights: Mapping[int, int], bits: str) -> str:
    """One of the keys, by weight."""
    return AliasTable.of(weights).sql(bits)


def word(words: Sequence[str], bits: str) -> str:
    """One of the words, each as often as any other."""
    listed = ", ".join(f"'{text}'" for text in words)
    return f"array({listed})[{uniform(len(words), bits)}]"


def zipf_rank(keys: int, exponent: float, bits: str) -> str:
    """A rank from 0 to keys - 1 by Zipf's law, as :func:`reshape.datasets.tpc.zipf_keys` counts it.

    The first ranks are drawn one by one; the others by the inverse of the law's integral around each rank, so that the
    expression stays small whatever the number of keys.
    """
    head = min(_HEAD, keys)
    weights = {rank: round(_WEIGHT * (rank + 1) ** -exponent) for rank in range(head)}
    if head == keys:
        return choice(weights, bits)
    beyond = sum((rank + 1) ** -exponent for rank in range(head, keys))
    drawn = choice(weights | {-1: round(_WEIGHT * beyond)}, bits)
    start, end = head + 0.5, keys + 0.5
    part = f"(shiftrightunsigned(xxhash64({bits}), 11) / {float(1 << 53)!r}D)"
    if exponent == 1.0:
        place = f"{start!r}D * power({end / start!r}D, {part})"
    else:
        power = 1.0 - exponent
        place = f"power({start**power!r}D + {end**power - start**power!r}D * {part}, {1 / power!r}D)"
    tail = f"least(CAST(floor({place} + 0.5D) AS INT), {keys}) - 1"
    return f"CASE WHEN {drawn} >= 0 THEN {drawn} ELSE {tail} END"


def spread(rank: str, size: int) -> str:
    """The ranks from 0 to size - 1 in an order in which neighbours are far apart."""
    return f"CAST({rank} * {spread_step(size)}L % {size} AS INT)"


def spread_step(size: int) -> int:
    return next(step for step in count(max(1, round(size * _GOLDEN))) if gcd(step, size) == 1)


def _array(numbers: Sequence[int], suffix: str = "") -> str:
    return f"array({', '.join(f'{number}{suffix}' for number in numbers)})"

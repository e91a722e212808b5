"""Estimates of the final result from a running one (online aggregation), with intervals. `docs/estimates.md` says why.

Splits of the input are read in a random order, so that what has been read is a random sample of them, without
replacement. A series of looks at the running result cuts it into batches of whole rounds of splits. How much batches
differ from each other says how far the total may be off.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]

CONFIDENCE = 0.95
# With fewer batches nothing can be said about how much they differ; more make no interval much shorter.
LEAST_BATCHES = 6
MOST_BATCHES = 24
# Looks that are kept: enough to cut them into batches anew when they have become many.
_MOST_LOOKS = 96
# A group that came in bursts has no interval: see `_even_batches`.
_LEAST_EVEN = 4.0
# Nor has a mean of so few rows: the next large value changes it.
_LEAST_ROWS = 200
# An interval ends at e to this times the value at the latest, which is as good as none.
_MOST_SHARE = 20.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """What the final value will be: with this confidence it is between ``low`` and ``high``."""

    value: float
    low: float
    high: float
    confidence: float


@dataclass(frozen=True, slots=True)
class RunningSums:
    """Groups of a running result, in the order of its rows, as sums that grow with the input.

    ``columns`` has for each column of sums its values; ``owners`` the worker whose partition a group belongs to.
    ``whole``: there are no other groups yet.
    """

    keys: Sequence[Hashable]
    owners: npt.NDArray[np.int64]
    columns: Doubles  # groups x columns
    whole: bool


@dataclass(frozen=True, slots=True)
class Total:
    """A count or a sum: this column of the sums, scaled to the whole input."""

    column: int


@dataclass(frozen=True, slots=True)
class Ratio:
    """A mean, or another ratio of two sums."""

    over: int
    under: int


@dataclass(frozen=True, slots=True)
class _Look:
    parts: Doubles  # by worker: which part of the input its groups stand for
    values: Doubles
    whole: bool

    def of(self, groups: int) -> Doubles:
        """Values of so many groups; those that came later were not there, or were not shown."""
        if len(self.values) == groups:
            return self.values
        absent = np.full((groups - len(self.values), self.values.shape[1]), 0.0 if self.whole else np.nan)
        return np.concatenate([self.values, absent])


class Series:
    """Looks at one running result. ``least_part``: the part of the input that a batch has at least, so that no split
    lies in more than two of them."""

    def __init__(self, least_part: float) -> None:
        self._least_part = least_part
        self._numbers: dict[Hashable, int] = {}
        self._looks: list[_Look] = []
        self._cut: dict[int, tuple[Doubles, Doubles]] = {}  # what was seen, cut into batches, by owner
        self._apart = least_part / 8  # looks that are nearer to each other are not worth their memory

    def add(self, parts: Doubles, sums: RunningSums) -> None:
        """A look. Those between which little was read are of no use, but for the last."""
        for key in sums.keys:
            self._numbers.setdefault(key, len(self._numbers))
        rows = [self._numbers[key] for key in sums.keys]
        values = np.full((len(self._numbers), sums.columns.shape[1]), 0.0 if sums.whole else np.nan)
        values[rows] = sums.columns
        before = self._looks[-2] if len(self._looks) > 1 else None
        if before is not None and np.max(self._looks[-1].parts - before.parts) < self._apart:
            self._looks.pop()
        self._cut.clear()
        self._looks.append(_Look(parts.copy(), values, sums.whole))
        if len(self._looks) > _MOST_LOOKS:
            self._thin_out()

    def _thin_out(self) -> None:
        """Half as many, from now on at larger steps, so that old and new ones are about the same way apart."""
        last = self._looks[-1]
        self._apart = 2 * float(np.max(last.parts)) / _MOST_LOOKS
        kept = self._looks[:1]
        for look in self._looks[1:-1]:
            if np.max(look.parts - kept[-1].parts) >= self._apart:
                kept.append(look)
        self._looks = [*kept, last]

    def estimates(
        self, what: Total | Ratio, sums: RunningSums, confidence: float = CONFIDENCE
    ) -> tuple[Estimate | None, ...]:
        """For each group of the newest look, which ``sums`` are; None where too little is known of it."""
        found: list[Estimate | None] = [None] * len(sums.keys)
        for owner in np.unique(sums.owners):
            places = np.flatnonzero(sums.owners == owner).tolist()
            numbers = [self._numbers[sums.keys[place]] for place in places]
            for place, estimate in zip(places, self._of_owner(int(owner), what, numbers, confidence), strict=True):
                found[place] = estimate
        return tuple(found)

    def _of_owner(
        self, owner: int, what: Total | Ratio, numbers: Sequence[int], confidence: float
    ) -> list[Estimate | None]:
        if owner not in self._cut:
            self._cut[owner] = self._batches(owner, numbers)
        values, sizes = self._cut[owner]
        if len(sizes) < LEAST_BATCHES:
            return [None] * len(numbers)
        if isinstance(what, Total):
            return _totals(values[:, :, what.column], sizes, confidence)
        return _ratios(values[:, :, what.over], values[:, :, what.under], sizes, confidence)

    def _batches(self, owner: int, numbers: Sequence[int]) -> tuple[Doubles, Doubles]:
        """What groups of one owner have in each batch (batches x groups x columns), and its part of the input."""
        looks, groups = self._boundaries(owner), len(self._numbers)
        ends = np.stack([look.of(groups)[numbers] for look in looks])
        values = np.diff(ends, axis=0, prepend=np.zeros((1, *ends.shape[1:])))
        return values, np.diff([look.parts[owner] for look in looks], prepend=0.0)

    def _boundaries(self, owner: int) -> list[_Look]:
        """Looks at the ends of batches; the last one is that of now."""
        last = self._looks[-1]
        least = max(self._least_part, float(last.parts[owner]) / MOST_BATCHES)
        chosen: list[_Look] = []
        at = 0.0
        for look in self._looks:
            part = float(look.parts[owner])
            if part - at >= least and last.parts[owner] - part >= least:
                chosen.append(look)
                at = part
        return [*chosen, last]


def _totals(values: Doubles, sizes: Doubles, confidence: float) -> list[Estimate | None]:
    """Sums of the whole input: what was seen, over the part that it was seen in."""
    part = float(sizes.sum())
    totals = values.sum(axis=0) / part
    errors = _errors(values - np.outer(sizes, totals), part) / part
    return _made(totals, errors, _even_batches(values), confidence)


def _ratios(over: Doubles, under: Doubles, sizes: Doubles, confidence: float) -> list[Estimate | None]:
    below = under.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = over.sum(axis=0) / below
        errors = _errors(over - under * ratios, float(sizes.sum())) / np.abs(below)
    even = np.minimum(_even_batches(over), _even_batches(under))
    return _made(ratios, errors, np.where(below >= _LEAST_ROWS, even, 0.0), confidence)


def _errors(residuals: Doubles, part: float) -> Doubles:
    """The standard error of what was seen, from how far each batch is off, less what is known for sure (§ finite
    population: when all has been read nothing is uncertain)."""
    batches = len(residuals)
    left = max(0.0, 1.0 - part)
    # A split that lies in two batches makes both alike, by which the first term alone is too small.
    alike = 2 * (residuals[1:] * residuals[:-1]).sum(axis=0)
    squares = (residuals**2).sum(axis=0) + np.maximum(alike, 0.0)
    spread: Doubles = np.sqrt(left * squares * batches / (batches - 1))
    return spread


def _even_batches(values: Doubles) -> Doubles:
    """Of how many batches of the same size a group is as certain: one that came in bursts, or whose sum is that of few
    large values, has fewer of them than there are."""
    squares = (values**2).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        even: Doubles = np.abs(values).sum(axis=0) ** 2 / squares
    return np.nan_to_num(even)


def _made(values: Doubles, errors: Doubles, even: Doubles, confidence: float) -> list[Estimate | None]:
    """Half the degrees of freedom that normal values would have: sums of skewed ones are less certain."""
    known = (even >= _LEAST_EVEN) & np.isfinite(values) & np.isfinite(errors)
    half = np.where(known, errors, 0.0) * students(confidence, np.maximum(even, _LEAST_EVEN) / 2)
    positive = known & (values > 0)
    # What is rare and large comes late: of amounts above 0 the true one is more often above than below.
    shares = np.divide(half, values, out=np.zeros(len(values)), where=positive).clip(0.0, _MOST_SHARE)
    highs = np.where(positive, values * np.exp(shares), values + half)
    rows = zip(known.tolist(), values.tolist(), (values - half).tolist(), highs.tolist(), strict=True)
    return [Estimate(value, low, high, confidence) if is_known else None for is_known, value, low, high in rows]


def students(confidence: float, freedom: Doubles) -> Doubles:
    """How many standard errors are on either side, by Student's t. Its expansion in terms of the normal distribution is
    right to one per cent from three degrees of freedom on."""
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    factors = np.full(len(freedom), z)
    for power, term in enumerate(terms, start=1):
        factors += term / freedom**power
    return factors

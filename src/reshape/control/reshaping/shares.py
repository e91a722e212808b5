"""How much moves: shares of records (§3.1, §3.2, §6.2), sets of keys (§3.1), and rows of the backlog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from reshape.control.routing import Key

# Resolution of the search for a set of keys: loads are rounded to this many steps of their sum.
KEY_SET_STEPS = 4096


def fill_up(own: float, others: Mapping[int, float]) -> dict[int, float]:
    """What each of the others has to get so that all end at one level; those above that level get nothing.

    The level is the average of ``own`` and of the others that are below it (§6.2).
    """
    chosen = sorted(others, key=lambda worker: (others[worker], worker))
    total = own + sum(others.values())
    while chosen:
        level = total / (len(chosen) + 1)
        if others[chosen[-1]] < level:
            return {worker: level - others[worker] for worker in chosen}
        total -= others[chosen.pop()]
    return {}


def record_shares(
    skewed: float, helpers: Mapping[int, float], part: float | None = None, max_denominator: int = 1000
) -> dict[int, Fraction]:
    """Phase two, split by records: the share of the skewed worker's rows for each helper.

    Loads are predictions before redirection. When only a part of the partition is shared (its heavy keys), the
    shares are of that part's rows. Empty when the helpers have no less to do than the skewed worker.
    """
    base = skewed if part is None else min(part, skewed)
    if base <= 0:
        return {}
    # No more than all: a part may be less than what should move, and a load next to nothing has rounding errors.
    fractions = {worker: min(1.0, rows / base) for worker, rows in fill_up(skewed, helpers).items()}
    if len(fractions) == 1:
        (worker, fraction), *_ = fractions.items()
        share = Fraction(fraction).limit_denominator(max_denominator)
        return {worker: share} if share > 0 else {}
    return in_parts(fractions, max_denominator)


def in_parts(fractions: Mapping[int, float], denominator: int) -> dict[int, Fraction]:
    """Fractions rounded to parts of one denominator; those after the first that would exceed 1 get less."""
    shares = {}
    left = denominator
    for worker, fraction in fractions.items():
        parts = min(left, round(fraction * denominator))
        if parts > 0:
            shares[worker] = Fraction(parts, denominator)
            left -= parts
    return shares


def backlog_rows(skewed: int, helpers: Mapping[int, int]) -> dict[int, int]:
    """Queued rows for each helper so that all have the same backlog at once."""
    gifts = fill_up(skewed, {worker: float(rows) for worker, rows in helpers.items()})
    return {worker: int(rows) for worker, rows in gifts.items() if int(rows) > 0}


def surplus_rows(skewed: int, helpers: Mapping[int, int]) -> dict[int, int]:
    """The reverse: queued rows that each helper gives back so that all have the same backlog at once."""
    gifts = fill_up(-float(skewed), {worker: -float(rows) for worker, rows in helpers.items()})
    return {worker: int(rows) for worker, rows in gifts.items() if int(rows) > 0}


@dataclass(frozen=True, slots=True)
class ChosenKeys:
    """Keys to move and their predicted load."""

    keys: frozenset[Key]
    load: float


def choose_keys(loads: Mapping[Key, float], half_gap: float) -> ChosenKeys:
    """Split by keys: the set whose load comes closest to half of the difference.

    Moving a load x changes the difference from 2h to |2h - 2x|: anything below 2h helps, so a set that does not is
    never returned; the empty set says that nothing helps. Subset sums over loads rounded to KEY_SET_STEPS steps,
    as bits of one integer: exact up to that rounding, and quick for the few dozen keys of a summary.
    """
    if half_gap <= 0:
        return ChosenKeys(frozenset(), 0.0)
    usable = [(key, load) for key, load in loads.items() if 0 < load < 2 * half_gap]
    if not usable:
        return ChosenKeys(frozenset(), 0.0)
    step = max(1.0 if _whole(usable) else 0.0, sum(load for _, load in usable) / KEY_SET_STEPS)
    steps = [max(1, round(load / step)) for _, load in usable]
    reachable = [1]
    for size in steps:
        reachable.append(reachable[-1] | reachable[-1] << size)
    # All keys together may be far less than half of the difference: then all of them come closest.
    wanted = _closest_bit(reachable[-1], min(half_gap / step, reachable[-1].bit_length() - 1))
    chosen = []
    for index in range(len(usable) - 1, -1, -1):
        if not reachable[index] >> wanted & 1:
            chosen.append(usable[index])
            wanted -= steps[index]
    load = sum(load for _, load in chosen)
    if not 0 < load < 2 * half_gap:
        return ChosenKeys(frozenset(), 0.0)
    return ChosenKeys(frozenset(key for key, _ in chosen), load)


def _whole(items: Sequence[tuple[Key, float]]) -> bool:
    return all(float(load).is_integer() for _, load in items)


def _closest_bit(bits: int, target: float) -> int:
    """The set bit closest to the target, 0 excluded unless alone; the smaller of two that are equally close."""
    above = ceil(target)
    down = (bits & ((1 << (above + 1)) - 1)).bit_length() - 1
    rest = bits >> (above + 1)
    up = above + 1 + ((rest & -rest).bit_length() - 1) if rest else None
    lower = (bits & ((1 << above) - 1)).bit_length() - 1
    candidates = [bit for bit in (lower, down, up) if bit is not None and bit > 0]
    return min(candidates, key=lambda bit: (abs(bit - target), bit), default=0)

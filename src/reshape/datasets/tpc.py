"""Distributions of the two TPC data sets that the paper uses, as counts per key.

DSB (W2): the paper shows its distributions as figures without numbers. Here the rank-frequency law of a key column
is Zipf's, with exponent 0.6 for the date of a sale (moderate skew: the first of 40 workers gets about twice its
fair part) and 1.0 for its item (high skew: the first item alone has four times a worker's fair part). A sale's customer
gets 0.4: the paper reports no skew of that join.

TPC-H orders (W3): the distribution of ``o_totalprice`` follows from the rules of the TPC-H specification, 4.2.3.
"""

from __future__ import annotations

from functools import cache
from itertools import accumulate

import numpy as np

# Ranks beyond this are lumped by worker: none of them matters by itself, and a run's cost grows with its keys.
RANKS_APART = 200
SALES_PER_GB = 720_000  # rows of web_sales per GB of DSB
DATES, DATE_EXPONENT = 1_826, 0.6  # five years of sales
ITEMS, ITEM_EXPONENT = 18_000, 1.0  # items at scale factor 1; the law, not the number, makes the skew
CUSTOMER_EXPONENT = 0.4

ORDERS_PER_GB = 1_500_000
SHARE_OF_STATUS = 0.49  # orders with one status, F or O
PRICE_STEP = 500.0

_SPREAD = 2654435761  # an odd factor modulo 2^32 is a bijection: distinct ranks get distinct, scattered codes


def zipf_keys(keys: int, exponent: float, rows: int, workers: int, apart: int = RANKS_APART) -> dict[int, int]:
    """Rows per key code; codes are spread like hashes, so that neighbours in rank have unrelated workers."""
    weights = [(rank + 1) ** -exponent for rank in range(keys)]
    ends = _whole(weights, rows)
    counts: dict[int, int] = {}
    lump = 2**32 - 2**32 % workers  # codes from here on, one per worker, stand for the tail
    for rank, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        code = rank * _SPREAD % 2**32
        code = code if rank < apart else lump + code % workers
        counts[code] = counts.get(code, 0) + end - start
    return counts


@cache
def order_prices() -> tuple[float, ...]:
    """Probability of each price step of an order: the sum of 1 to 7 line items.

    A line item costs quantity (1 to 50) times retail price (900 to 2,099, near triangular) times
    (1 - discount) (0 to 10 %) times (1 + tax) (0 to 8 %), each drawn evenly.
    """
    retail = np.add.outer(np.linspace(0, 200, 21), np.linspace(900, 1899, 101)).ravel()
    factor = np.multiply.outer(1 - np.arange(11) / 100, 1 + np.arange(9) / 100).ravel()
    unit, _ = np.histogram(np.multiply.outer(retail, factor).ravel(), bins=500, range=(800, 2300))
    centre = 800 + (np.arange(500) + 0.5) * 3
    line_prices = np.multiply.outer(np.arange(1, 51), centre).ravel()
    steps = int(2300 * 50 / PRICE_STEP) + 1
    line = np.bincount((line_prices / PRICE_STEP).astype(int), np.tile(unit, 50), steps)
    line = line / line.sum()
    order = np.zeros(7 * steps)
    total = np.array([1.0])
    for _items in range(7):
        total = np.convolve(total, line)
        order[: len(total)] += total / 7
    return tuple(order.tolist())


def orders_per_range(gigabytes: float, workers: int) -> dict[int, int]:
    """Orders of one status in each of as many price ranges of equal width as there are workers."""
    rows = int(gigabytes * ORDERS_PER_GB * SHARE_OF_STATUS)
    prices = order_prices()
    # The dearest order that occurs: beyond it less than one is expected.
    beyond = list(accumulate(reversed(prices)))
    last = len(prices) - sum(rows * share < 1 for share in beyond)
    shares = [0.0] * workers
    for step, share in enumerate(prices):
        shares[min(workers - 1, step * workers // last)] += share
    ends = _whole(shares, rows)
    return {index: end - start for index, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True))}


def _whole(weights: list[float], rows: int) -> list[int]:
    """Running sums of whole rows: rounding these instead of each number keeps the total exact."""
    total = sum(weights)
    return [*(int(rows * upto / total) for upto in accumulate(weights[:-1])), rows]

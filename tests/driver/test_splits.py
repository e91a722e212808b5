"""Splits are dealt out in an order that says nothing about the data, each of them once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reshape.driver.splits import SplitDealer

SPLITS = 40


@dataclass(frozen=True)
class ScanOf:
    """As much of a scan as the dealer looks at."""

    splits: tuple[int, ...]


def dealt(*, in_order: bool = False) -> list[int]:
    scan: Any = ScanOf(tuple(range(SPLITS)))
    dealer = SplitDealer({0: scan}, 2, lambda *_: None, lambda: None, in_order=in_order)
    order = []
    while (split := dealer.next(0).split) is not None:
        order.append(split)
    return order


def test_every_split_is_dealt_once_in_a_shuffled_order_that_is_always_the_same() -> None:
    order = dealt()
    assert sorted(order) == list(range(SPLITS))
    assert order != sorted(order)
    assert dealt() == order
    assert dealt(in_order=True) == list(range(SPLITS))

"""Splits are dealt out in an order that says nothing about the data, each of them once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from reshape.driver.splits import SplitDealer
from reshape.errors import FlowFailed
from reshape.protocol.reports import SourceRead

SPLITS = 40


@dataclass(frozen=True)
class ScanOf:
    """As much of a scan as the dealer looks at."""

    splits: tuple[int, ...]


def dealer_of(*, in_order: bool = False) -> SplitDealer:
    scan: Any = ScanOf(tuple(range(SPLITS)))
    return SplitDealer({0: scan}, 2, lambda *_: None, lambda: None, in_order=in_order)


def dealt(*, in_order: bool = False) -> list[int]:
    dealer = dealer_of(in_order=in_order)
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


def test_a_source_of_a_flow_that_was_stopped_has_not_been_read() -> None:
    """Hosts that ask for more get none, and say that they are through, sooner than the driver has looked."""
    dealer = dealer_of()
    assert dealer.next(0).split is not None
    dealer.close()
    for host in range(2):
        assert dealer.next(0).split is None
        dealer.read(SourceRead(0, host, 10))
    with pytest.raises(FlowFailed, match="ended before all of it was read"):
        dealer.run(0)


def test_a_source_has_been_read_when_all_hosts_say_so() -> None:
    dealer = dealer_of()
    for host in range(2):
        dealer.read(SourceRead(0, host, 10))
    assert dealer.run(0) == 20

"""What other threads have for the working thread of a host: orders, and things to do between two batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from reshape.protocol.orders import Order


class Inbox:
    """Any thread may put things in; the working thread takes them out. ``wake`` ends its sleep."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._orders: deque[Order] = deque()
        self._calls: deque[Callable[[], None]] = deque()

    def obey(self, order: Order) -> None:
        self._orders.append(order)
        self._wake()

    def soon(self, call: Callable[[], None]) -> None:
        """Run something in the working thread, between two batches."""
        self._calls.append(call)
        self._wake()

    def orders(self) -> Iterator[Order]:
        while self._orders:
            yield self._orders.popleft()

    def run_calls(self) -> None:
        while self._calls:
            self._calls.popleft()()

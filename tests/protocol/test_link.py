"""A task and its driver: one that is busy is waited for, one that is gone is not. Time is a number here."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from reshape.driver.board import Board
from reshape.driver.once import Once
from reshape.exchange.errors import NoAnswer, Unreachable
from reshape.exchange.transport.access import Access
from reshape.exchange.transport.client import Client
from reshape.protocol import link
from reshape.protocol.codec import decode_reports, encode_answer, encode_orders
from reshape.protocol.link import ControlLink, FlowAddress
from reshape.protocol.orders import Abort, Order, Orders
from reshape.protocol.reports import Report, TableApplied, Withdrawn

A_BUSY_MINUTE_S = 90.0


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("reshape.protocol.link.time", clock)
    monkeypatch.setattr("reshape.driver.board.time", clock)
    return clock


def poll(monkeypatch: pytest.MonkeyPatch, answer: Callable[[float], bytes]) -> list[Order]:
    """Orders that a task gets from a driver that answers its polls like this, given how long a poll may take."""
    monkeypatch.setattr(link, "call", lambda client, action, body, timeout_s: answer(timeout_s))
    monkeypatch.setattr(link, "RETRY_S", 0.0)
    orders: list[Order] = []
    # Nobody listens there; connections are made when something is sent.
    line = ControlLink(FlowAddress("flow", "tcp://127.0.0.1:1", Access("secret")), 1, "host-0", orders.append)
    line.start()
    line._thread.join(60)
    assert not line._thread.is_alive()
    line.close()
    return orders


def test_a_busy_driver_is_waited_for(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    busy_until = clock.now + A_BUSY_MINUTE_S

    def answer(timeout_s: float) -> bytes:
        if clock.now >= busy_until:
            return encode_orders(Orders((), 0, over=True))
        clock.now = min(busy_until, clock.now + timeout_s)
        if clock.now < busy_until:
            raise NoAnswer("no answer in time")
        return encode_orders(Orders((), 0, over=True))

    assert poll(monkeypatch, answer) == []


def test_a_driver_that_nobody_answers_for_is_gone_soon(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    began = clock.now

    def answer(timeout_s: float) -> bytes:
        clock.now += 0.5
        raise Unreachable("connection refused")

    [order] = poll(monkeypatch, answer)
    assert isinstance(order, Abort)
    assert clock.now - began < 10


def test_a_call_that_stalls_is_not_forgotten_over_those_of_other_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source's last word may wait for its turn on a busy machine while the thread that obeys reports many tables."""
    once, booked = Once(), list[Report]()
    stalls, may_go = threading.Event(), threading.Event()

    def call(client: Client, action: str, body: bytes, timeout_s: float) -> bytes:
        message = decode_reports(body)
        [report] = message.reports
        if isinstance(report, Withdrawn):
            stalls.set()
            assert may_go.wait(60)
        return encode_answer(
            once.book(message.sender, message.line, message.number, message.oldest, lambda: booked.append(report))
        )

    monkeypatch.setattr(link, "call", call)
    line = ControlLink(FlowAddress("flow", "tcp://127.0.0.1:1", Access("secret")), 1, "host-0", lambda _: None)
    late = threading.Thread(target=lambda: line.report(Withdrawn(0, 0, 1)))
    late.start()
    assert stalls.wait(60)
    for version in range(100):
        line.report(TableApplied(0, 0, "source-0-0", version))
    may_go.set()
    late.join(60)
    line.close()
    assert booked == [*(TableApplied(0, 0, "source-0-0", version) for version in range(100)), Withdrawn(0, 0, 1)]


def test_a_driver_that_was_busy_takes_no_task_for_silent(clock: Clock) -> None:
    board = Board()
    board.read("host-0", 0, 0.0)
    assert board.silent(["host-0", "host-1"], 60.0) is None
    clock.now += A_BUSY_MINUTE_S  # nothing was read meanwhile, because nothing ran here
    assert board.silent(["host-0", "host-1"], 60.0) is None
    for _ in range(13):
        clock.now += 5.0
        board.read("host-0", 0, 0.0)
        said = board.silent(["host-0", "host-1"], 60.0)
    assert said == "host-1"

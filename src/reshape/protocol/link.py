"""A task's line to the driver: reports go up, orders come down. Apart from the data, so never behind it.

What must not be lost is a call, answered by the driver, and made again where the connection broke;
the driver books it once. Counts, of which the newest replace all others, go up a line without an answer, for about half
the CPU time. Orders are fetched by long polls, so they arrive as soon as they are given; tasks need no listener of
their own for them. Where there are too many tasks for that, the driver answers polls at once: then a task pauses for as
long as it is told, and its counts come with the next poll.
"""

from __future__ import annotations

import contextlib
import random
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from reshape.errors import FlowFailed
from reshape.exchange.errors import CallError, PeerLost, Unreachable
from reshape.exchange.transport.access import Access
from reshape.exchange.transport.client import call, connect
from reshape.exchange.transport.streams import NoteLine
from reshape.protocol.codec import Poll, Reports, decode_answer, decode_orders, encode_poll, encode_reports
from reshape.protocol.errors import Aborted, DriverLost, MessageRefused, TaskLost
from reshape.protocol.newest import Counted, newest
from reshape.protocol.orders import Abort, Order
from reshape.protocol.reports import (
    Answer,
    Failed,
    HostReady,
    Leaving,
    Report,
    RouterStarted,
    Sender,
    SourceBegins,
    SplitWanted,
)

# One poll lasts this long at the driver when there is nothing to say.
POLL_S = 2.0
# A driver whose connection stands may be busy: its user's code that keeps Python's lock lets nothing else run, for
# a minute or two. One that has not answered for so long is gone with its machine.
LOST_AFTER_S = 180.0
# The driver listens as long as it lives: where connections fail for so long, it is gone, and tasks must not outlive it.
REFUSED_AFTER_S = 4.0
# A last word that the driver can do without must not hold up a task's end.
FAREWELL_S = 2.0
RETRY_S = 0.2


@dataclass(frozen=True, slots=True)
class FlowAddress:
    """Where the driver listens for this flow."""

    name: str
    location: str
    access: Access


Question = HostReady | RouterStarted | SourceBegins | SplitWanted


class _Unsent:
    """The newest counts of a task until its next poll takes them along."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counted | None = None

    def put(self, counts: Counted) -> None:
        with self._lock:
            self._counts = newest(self._counts, counts)

    def take(self) -> tuple[Counted, ...]:
        with self._lock:
            counts, self._counts = self._counts, None
        return () if counts is None else (counts,)


class _Calls:
    """Numbers the calls of a line and knows which of them still wait for their answers. Several threads call; one that
    stalls between two of its instructions may be overtaken by any number of calls of the others."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0
        self._waiting: set[int] = set()

    @contextlib.contextmanager
    def new(self) -> Iterator[tuple[int, int]]:
        """The number of a call, and the lowest of those that wait."""
        with self._lock:
            self._last += 1
            number = self._last
            self._waiting.add(number)
            oldest = min(self._waiting)
        try:
            yield number, oldest
        finally:
            with self._lock:
                self._waiting.discard(number)


class ControlLink:
    """Polls in a thread of its own; orders are handed to ``obey`` one at a time, in the order given."""

    def __init__(self, flow: FlowAddress, attempt: int, task: str, obey: Callable[[Order], None]) -> None:
        self._flow = flow
        self._sender = Sender(flow.name, attempt, task)
        self._obey = obey
        self._closing = threading.Event()
        self._line = secrets.token_hex(8)
        self._calls = _Calls()
        self._client = connect(flow.location, flow.access)
        self._notes: NoteLine | None = None
        self._may_wait = False  # at the driver for orders, with a line for counts; it says so in its first answer
        self._has_line = False
        self._pause_s = 0.0  # between two counts
        self._note_at = 0.0  # no counts are wanted before
        self._counts = _Unsent()
        self._thread = threading.Thread(target=self._poll, name=f"reshape-control-{task}", daemon=True)
        self.lost: DriverLost | None = None

    def start(self) -> None:
        self._thread.start()

    def report(self, *reports: Report, within_s: float = LOST_AFTER_S) -> None:
        """Say what must not be lost; returns when the driver has booked it."""
        self._call(reports, within_s)

    def ask(self, question: Question, within_s: float = LOST_AFTER_S) -> Answer | None:
        """Report something and return the driver's answer."""
        return decode_answer(self._call((question,), within_s))

    def note(self, counts: Counted) -> None:
        """Say something that nobody has to answer; used by one thread. If it is lost, the next one counts."""
        if self.lost is not None:
            raise self.lost
        self._counts.put(counts)
        if not self._may_wait or time.monotonic() < self._note_at:
            return  # the next one, or the next poll, takes them along
        self._has_line = True
        unsent = self._counts.take()
        if not unsent:  # a poll has just taken them along
            return
        self._note_at = time.monotonic() + self._pause_s
        line, self._notes = self._notes or NoteLine(self._client), None  # a line that fails is opened anew
        line.send(encode_reports(Reports(self._sender, self._line, 0, unsent)))
        self._notes = line

    def report_failure(self, error: BaseException, where: str) -> None:
        """Report what ended a task. Lost peers and lost tasks are the cluster's failure, all else is the flow's."""
        if isinstance(error, Aborted):
            return
        cause, lost = f"{type(error).__name__}: {error}", False
        if isinstance(error, FlowFailed):
            where, cause, lost = error.where, error.cause, isinstance(error, TaskLost)
        elif isinstance(error, PeerLost):
            where, cause, lost = error.peer, f"it is gone; {error.cause}", True
        self.report(Failed(where, cause, lost))

    def close(self) -> None:
        """Stop polling; returns when no order will be obeyed any more."""
        self._closing.set()
        if self._notes is not None and self.lost is None:  # nobody would say that the last ones have been taken
            with contextlib.suppress(CallError):
                self._notes.close()
        last_words: list[Report] = [*self._counts.take()]
        if self._thread.is_alive():
            last_words.append(Leaving())
        if last_words:
            with contextlib.suppress(CallError, DriverLost):
                self.report(*last_words, within_s=FAREWELL_S)
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(POLL_S + 1.0)
        self._client.close()

    def _call(self, reports: Sequence[Report], within_s: float) -> bytes:
        """Until the driver has answered; a call whose connection broke is made again, with the same number."""
        with self._calls.new() as (number, oldest):
            return self._answered(
                encode_reports(Reports(self._sender, self._line, number, tuple(reports), oldest)), within_s
            )

    def _answered(self, body: bytes, within_s: float) -> bytes:
        deadline = time.monotonic() + within_s
        broke_at: float | None = None
        while True:
            if self.lost is not None:
                raise self.lost
            try:
                return call(self._client, "report", body, max(deadline - time.monotonic(), RETRY_S))
            except Unreachable as error:
                now = time.monotonic()
                broke_at = now if broke_at is None else broke_at
                if now + RETRY_S > min(deadline, broke_at + REFUSED_AFTER_S):
                    raise DriverLost(self._flow.location, now - broke_at, str(error)) from error
                time.sleep(RETRY_S)

    def _poll(self) -> None:
        client = connect(self._flow.location, self._flow.access)
        last = 0
        heard = time.monotonic()
        while not self._closing.is_set():
            try:
                # Once there is a line for counts they have one way only, and stay in their order.
                poll = Poll(self._sender, last, () if self._has_line else self._counts.take())
                answer = decode_orders(call(client, "orders", encode_poll(poll), POLL_S + LOST_AFTER_S))
            except CallError as error:
                silent = time.monotonic() - heard
                refused = isinstance(error, Unreachable)
                if silent > (REFUSED_AFTER_S if refused else LOST_AFTER_S):
                    self.lost = DriverLost(self._flow.location, silent, str(error))
                    self._obey(Abort("the driver", str(self.lost)))
                    break
                self._closing.wait(RETRY_S)
                continue
            except MessageRefused as error:  # nothing that the driver orders would be understood
                self._obey(Abort("the driver", str(error)))
                break
            fresh = answer.orders if answer.last > last else ()  # an answer that came before is not obeyed again
            last, self._may_wait, self._pause_s = max(last, answer.last), answer.may_wait, answer.pause_s
            for order in fresh:
                if not self._closing.is_set():
                    self._obey(order)
            if answer.over:
                break
            if not answer.may_wait:
                # Tasks that have begun together would go on calling together.
                self._closing.wait(answer.pause_s * random.uniform(0.5, 1.5))
            heard = time.monotonic()
        client.close()

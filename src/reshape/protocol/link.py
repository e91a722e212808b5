"""A task's line to the driver: reports go up, orders come down. Apart from the data, so never behind it.

Both are JSON. What must not be lost is an action of Arrow Flight, answered by the driver; counts, of which the newest
replace all others, go up a line that stays open, for about half the CPU time. Orders are fetched by long polls, so they
arrive as soon as they are given; tasks need no listener of their own for them.
"""

from __future__ import annotations

import base64
import contextlib
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyarrow import flight

from reshape.errors import FlowFailed
from reshape.exchange.errors import PeerLost
from reshape.exchange.flight import Access, NoteLine, call, connect
from reshape.protocol.errors import Aborted, DriverLost, TaskLost

# One poll lasts this long at the driver when there is nothing to say.
POLL_S = 2.0
# A driver that has not answered for so long is gone; its tasks must not outlive it for long.
LOST_AFTER_S = 15.0
# The driver listens as long as it lives: where connections fail for so long, it does not.
REFUSED_AFTER_S = 4.0
# A last word that the driver can do without must not hold up a task's end.
FAREWELL_S = 2.0
RETRY_S = 0.2

Order = dict[str, Any]


class ControlLink:
    """Polls in a thread of its own; orders are handed to ``obey`` one at a time, in the order given."""

    def __init__(
        self, location: str, access: Access, run: str, attempt: int, who: str, obey: Callable[[Order], None]
    ) -> None:
        self._location = location
        self._access = access
        self._identity = {"run": run, "attempt": attempt, "who": who}
        self._obey = obey
        self._closing = threading.Event()
        self._client = connect(location, access)
        self._notes: NoteLine | None = None
        self._thread = threading.Thread(target=self._poll, name=f"reshape-control-{who}", daemon=True)
        self.lost: DriverLost | None = None

    def start(self) -> None:
        self._thread.start()

    def tell(self, kind: str, within_s: float = LOST_AFTER_S, **facts: Any) -> Any:
        """Report something and return the driver's answer."""
        if self.lost is not None:
            raise self.lost
        body = json.dumps({**self._identity, "kind": kind, **facts}).encode()
        answer = call(self._client, "tell", body, within_s)
        return json.loads(answer) if answer else None

    def note(self, kind: str, **facts: Any) -> None:
        """Say something that nobody has to answer; used by one thread. If it is lost, the next one counts."""
        if self.lost is not None:
            raise self.lost
        line, self._notes = self._notes or NoteLine(self._client), None  # a line that fails is opened anew
        line.send(json.dumps({**self._identity, "kind": kind, **facts}).encode())
        self._notes = line

    def tell_failure(self, error: BaseException, where: str) -> None:
        """Report what ended a task. Lost peers and lost tasks are the cluster's failure, all else is the flow's."""
        if isinstance(error, Aborted):
            return
        cause, lost = f"{type(error).__name__}: {error}", False
        if isinstance(error, FlowFailed):
            where, cause, lost = error.where, error.cause, isinstance(error, TaskLost)
        elif isinstance(error, PeerLost):
            where, cause, lost = error.peer, f"it is gone; {error.cause}", True
        self.tell("failed", where=where, cause=cause, lost=lost)

    def close(self) -> None:
        """Stop polling; returns when no order will be obeyed any more."""
        self._closing.set()
        if self._notes is not None and self.lost is None:  # nobody would say that the last ones have been taken
            with contextlib.suppress(pa.ArrowException):
                self._notes.close()
        if self._thread.is_alive():
            with contextlib.suppress(pa.ArrowException, DriverLost):
                self.tell("leaving", FAREWELL_S)
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(POLL_S + 1.0)
        with contextlib.suppress(pa.ArrowException):
            self._client.close()

    def _poll(self) -> None:
        client = connect(self._location, self._access)
        after = 0
        heard = time.monotonic()
        while not self._closing.is_set():
            body = json.dumps({**self._identity, "after": after}).encode()
            try:
                answer = json.loads(call(client, "orders", body, POLL_S + LOST_AFTER_S))
            except pa.ArrowException as error:
                silent = time.monotonic() - heard
                refused = isinstance(error, flight.FlightUnavailableError)
                if silent > (REFUSED_AFTER_S if refused else LOST_AFTER_S):
                    self.lost = DriverLost(self._location, silent, str(error))
                    self._obey({"kind": "abort", "cause": str(self.lost)})
                    break
                self._closing.wait(RETRY_S)
                continue
            heard = time.monotonic()
            for order in answer["orders"]:
                after = order["number"]
                if not self._closing.is_set():
                    self._obey(order)
            if answer.get("over"):
                break
        with contextlib.suppress(pa.ArrowException):
            client.close()


def to_text(batch: pa.RecordBatch) -> str:
    """A small batch as text within JSON."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return base64.b64encode(sink.getvalue().to_pybytes()).decode()


def from_text(text: str) -> pa.RecordBatch:
    with pa.ipc.open_stream(base64.b64decode(text)) as reader:
        return reader.read_next_batch()

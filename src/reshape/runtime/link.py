"""A task's line to the driver: reports go up, orders come down. Apart from the data, so never behind it.

Both are actions of Arrow Flight with JSON bodies. Orders are fetched by long polls, so they arrive as soon as they are
given; tasks need no listener of their own for them.
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

from reshape.exchange.flight import Access, call, connect
from reshape.runtime.errors import DriverLost

# One poll lasts this long at the driver when there is nothing to say.
POLL_S = 2.0
# A driver that has not answered for so long is gone; its tasks must not outlive it for long.
LOST_AFTER_S = 15.0
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
        self._thread = threading.Thread(target=self._poll, name=f"reshape-control-{who}", daemon=True)
        self.lost: DriverLost | None = None

    def start(self) -> None:
        self._thread.start()

    def tell(self, kind: str, **facts: Any) -> Any:
        """Report something and return the driver's answer."""
        body = json.dumps({**self._identity, "kind": kind, **facts}).encode()
        answer = call(self._client, "tell", body, LOST_AFTER_S)
        return json.loads(answer) if answer else None

    def close(self) -> None:
        """Stop polling; returns when no order will be obeyed any more."""
        self._closing.set()
        if self._thread.is_alive():
            with contextlib.suppress(pa.ArrowException):
                self.tell("leaving")
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
                if time.monotonic() - heard > LOST_AFTER_S:
                    self.lost = DriverLost(self._location, LOST_AFTER_S, str(error))
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

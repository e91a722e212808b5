"""The driver's end of the control lines: one listener per Spark application, there while a flow may need it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any, Protocol

from reshape.exchange.flight import Access, Listener, Tls
from reshape.protocol.link import POLL_S


class ControlledFlow(Protocol):
    """A flow as its tasks see it."""

    access: Access

    def told(self, message: dict[str, Any]) -> Any:
        """A task reports something; the answer is sent back as JSON."""

    def orders(self, attempt: int, who: str, after: int, wait_s: float) -> dict[str, Any]:
        """Orders for a task beyond the number that it knows."""

    def fail(self, where: str, cause: str) -> None:
        """Stop it."""


class DriverService:
    """Listens while at least one flow is registered. Flows are told apart by name, admitted by secret."""

    def __init__(self, address: str, tls: Tls | None = None) -> None:
        self._address = address
        self._tls = tls
        self._flows: dict[str, ControlledFlow] = {}
        self._needed: dict[str, Callable[[], bool]] = {}
        self._listener: Listener | None = None
        self._lock = threading.Lock()

    def register(self, name: str, flow: ControlledFlow) -> str:
        """Add a flow; the location that its tasks talk to."""
        with self._lock:
            self._flows[name] = flow
            if self._listener is None:
                self._listener = Listener(
                    self._address,
                    lambda: [known.access.secret for known in list(self._flows.values())],
                    self._tls,
                    actions={"tell": self._tell, "orders": self._orders},
                    notes=self._note,
                )
            return self._listener.location

    def keep_while(self, name: str, needed: Callable[[], bool]) -> None:
        """Let a flow go once this says that nobody can run it any more; asked when the next one comes."""
        self._needed[name] = needed

    def drop_unneeded(self) -> None:
        for name, needed in list(self._needed.items()):
            if not needed():
                self.unregister(name)

    def interrupt(self, cause: str) -> None:
        """Stop whatever runs."""
        for flow in list(self._flows.values()):
            flow.fail("the driver", cause)

    def close(self) -> None:
        """Nobody can run any of the flows any more."""
        for name in list(self._flows):
            self.unregister(name)

    def unregister(self, name: str) -> None:
        """Remove a flow; with the last one the listener goes."""
        with self._lock:
            self._flows.pop(name, None)
            self._needed.pop(name, None)
            if self._flows or self._listener is None:
                return
            listener, self._listener = self._listener, None
        listener.shutdown()

    def _tell(self, body: bytes) -> bytes:
        return json.dumps(self._note(body)).encode()

    def _note(self, body: bytes) -> Any:
        message = json.loads(body)
        return self._flow(message).told(message)

    def _orders(self, body: bytes) -> bytes:
        message = json.loads(body)
        flow = self._flow(message)
        answer = flow.orders(int(message["attempt"]), str(message["who"]), int(message["after"]), POLL_S)
        return json.dumps(answer).encode()

    def _flow(self, message: dict[str, Any]) -> ControlledFlow:
        try:
            return self._flows[message["run"]]
        except KeyError:
            raise KeyError(f"no flow {message.get('run')!r} here") from None

"""Rows from this host's operators to other hosts: a sending thread per stream, so the loop never waits for a peer."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from reshape.exchange.transport.streams import Outlet
from reshape.exchange.wire import Envelope

ROOM_BYTES = 32 * 1024 * 1024
# Sending threads end with their stream; this only bounds how long a teardown waits for one that is stuck.
JOIN_S = 5.0


class _Last:
    """Counts streams down to the last one that closes."""

    def __init__(self, streams: int, action: Callable[[], None]) -> None:
        self._left = streams
        self._action = action
        self._lock = threading.Lock()

    def one_done(self) -> None:
        with self._lock:
            self._left -= 1
            if self._left:
                return
        self._action()


@dataclass(frozen=True, slots=True)
class _Fence:
    """A mark in every stream of a sender; the last receiver that has come to it ends the wait."""

    version: int
    last: _Last


_Message = tuple[pa.RecordBatch, Envelope] | _Last | _Fence | None


class Outbound:
    """All remote streams of one host. ``has_room`` is asked before an operator that sends is run."""

    def __init__(
        self,
        open_outlet: Callable[[int, int, pa.Schema], Outlet],
        on_room: Callable[[], None],
        room_bytes: int = ROOM_BYTES,
    ) -> None:
        """``open_outlet`` makes a stream from an operator to a host for rows of a schema; ``on_room`` is called when
        there is room again, or none for ever."""
        self._on_room = on_room
        self._open_outlet = open_outlet
        self._room = room_bytes
        self._bytes = 0
        self._lock = threading.Lock()
        # By operator, host, and whether rows are combined.
        self._queues: dict[tuple[int, int, bool], queue.SimpleQueue[_Message]] = {}
        self._threads: list[threading.Thread] = []
        self._failure: BaseException | None = None

    def has_room(self) -> bool:
        if self._failure is not None:
            raise self._failure
        return self._bytes < self._room

    def send(self, operator: int, host: int, batch: pa.RecordBatch, envelope: Envelope) -> None:
        key = (operator, host, envelope.combined)
        stream = self._queues.get(key)
        if stream is None:
            stream = self._queues[key] = queue.SimpleQueue()
            thread = threading.Thread(
                target=self._pump, args=(operator, host, stream), name=f"reshape-send-{operator}-{host}", daemon=True
            )
            self._threads.append(thread)
            thread.start()
        with self._lock:
            self._bytes += batch.nbytes
        stream.put((batch, envelope))

    def end(self, operator: int, action: Callable[[], None]) -> None:
        """Close the streams of an operator, and call this once their receivers have taken everything."""
        streams = [stream for (sender, *_), stream in self._queues.items() if sender == operator]
        if not streams:
            action()
            return
        last = _Last(len(streams), action)
        for stream in streams:
            stream.put(last)

    def fence(self, operator: int, version: int, action: Callable[[], None]) -> None:
        """Call this once the receivers have taken everything that the operator has sent so far."""
        streams = [stream for (sender, *_), stream in self._queues.items() if sender == operator]
        if not streams:
            action()
            return
        last = _Last(len(streams), action)
        for stream in streams:
            stream.put(_Fence(version, last))

    def close(self) -> None:
        """Give up whatever is still to be sent."""
        for stream in self._queues.values():
            stream.put(None)
        for thread in self._threads:
            thread.join(JOIN_S)

    def _pump(self, operator: int, host: int, stream: queue.SimpleQueue[_Message]) -> None:
        outlet: Outlet | None = None
        try:
            while (message := stream.get()) is not None:
                if isinstance(message, _Last):
                    if outlet is not None:
                        outlet.close()
                    message.one_done()
                    return
                if isinstance(message, _Fence):
                    if outlet is not None:
                        outlet.mark(message.version)
                        outlet.await_mark(message.version)
                    message.last.one_done()
                    continue
                batch, envelope = message
                if outlet is None:
                    outlet = self._open_outlet(operator, host, batch.schema)
                outlet.send(batch, envelope)
                with self._lock:
                    was_full = self._bytes >= self._room
                    self._bytes -= batch.nbytes
                if was_full:
                    self._on_room()
        except BaseException as error:  # the loop raises it at its next look
            self._failure = error
            self._on_room()

"""Listeners of all queries of this process, as PySpark's `StreamingQueryListener`. They hear of a query's start, its
progress and its end in a thread of ours, one event after the other, so that a slow one holds up no flow."""

from __future__ import annotations

import logging
import threading
from collections import deque
from dataclasses import dataclass

from reshape.observe.progress import QueryProgress

LOG = logging.getLogger(__name__)

# Progress that listeners are too slow for is dropped: beyond this many events they only hear of starts and ends.
MOST_WAITING = 1_000


@dataclass(frozen=True, slots=True)
class QueryStartedEvent:
    """A flow was started; it may still be queued.

    >>> class Starts(reshape.QueryListener):
    ...     def onQueryStarted(self, event):
    ...         print(event.name, "begins")
    >>> Starts().onQueryStarted(reshape.QueryStartedEvent("3f2a", "9c41", "shops", "2026-11-18T03:00:00Z"))
    shops begins
    """

    id: str
    runId: str  # noqa: N815 - as in PySpark
    name: str
    timestamp: str


@dataclass(frozen=True, slots=True)
class QueryProgressEvent:
    """A query goes on, or has ended: the newest record of its progress.

    >>> class Percents(reshape.QueryListener):
    ...     def onQueryProgress(self, event: reshape.QueryProgressEvent):
    ...         print(event.progress.name, event.progress.part_read)
    """

    progress: QueryProgress


@dataclass(frozen=True, slots=True)
class QueryTerminatedEvent:
    """A query has ended; ``exception`` is what it failed with, in words, None after success.

    >>> reshape.QueryTerminatedEvent("3f2a", "9c41", None).exception is None
    True
    """

    id: str
    runId: str  # noqa: N815
    exception: str | None


QueryEvent = QueryStartedEvent | QueryProgressEvent | QueryTerminatedEvent


class QueryListener:
    """Base of listeners: override what you want to hear of. What a method raises is logged, and disturbs nobody.

    >>> import queue
    >>> heard = queue.Queue()
    >>> class Ends(reshape.QueryListener):
    ...     def onQueryTerminated(self, event):
    ...         heard.put(event.exception)
    >>> reshape.add_listener(ends := Ends())
    >>> reshape.start(by_shop).awaitTermination()
    True
    >>> print(heard.get(timeout=60))
    None
    >>> reshape.remove_listener(ends)
    """

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Called for each query that is started."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Called twice a second while a query runs, and once when it has ended."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Called when a query has ended, one way or the other."""


class Listeners:
    """Takes events from any thread. Its own thread is there while there is something to tell."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: tuple[QueryListener, ...] = ()
        self._events: deque[tuple[QueryEvent, tuple[QueryListener, ...]]] = deque()
        self._thread: threading.Thread | None = None

    def add(self, listener: QueryListener) -> None:
        with self._lock:
            if listener not in self._listeners:
                self._listeners = (*self._listeners, listener)

    def remove(self, listener: QueryListener) -> None:
        """Of events that are under way it may still hear."""
        with self._lock:
            self._listeners = tuple(other for other in self._listeners if other is not listener)

    def post(self, event: QueryEvent) -> None:
        """Tell those who listen now. Returns at once."""
        with self._lock:
            full = len(self._events) >= MOST_WAITING and isinstance(event, QueryProgressEvent)
            if not self._listeners or full:
                return
            self._events.append((event, self._listeners))
            if self._thread is None:
                self._thread = threading.Thread(target=self._tell, name="reshape-listeners", daemon=True)
                self._thread.start()

    def _tell(self) -> None:
        while True:
            with self._lock:
                if not self._events:
                    self._thread = None
                    return
                event, listeners = self._events.popleft()
            for listener in listeners:
                try:
                    _call(listener, event)
                except Exception:
                    LOG.exception("the listener %r raised at %s", listener, type(event).__name__)


def _call(listener: QueryListener, event: QueryEvent) -> None:
    match event:
        case QueryStartedEvent():
            listener.onQueryStarted(event)
        case QueryProgressEvent():
            listener.onQueryProgress(event)
        case QueryTerminatedEvent():
            listener.onQueryTerminated(event)


LISTENERS = Listeners()

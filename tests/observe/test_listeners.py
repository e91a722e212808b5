"""Listeners hear of everything in its order, in a thread of ours, and cannot disturb anybody."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import pytest

from reshape.observe import listeners as module
from reshape.observe.listeners import (
    Listeners,
    QueryListener,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
)
from reshape.observe.progress import QueryProgress

STARTED = QueryStartedEvent("a", "b", "flow", "2026-01-01T00:00:00.000Z")
PROGRESS = QueryProgressEvent(
    QueryProgress("a", "b", "flow", "2026-01-01T00:00:01.000Z", 1, 1.0, 10, 10.0, 5.0, 0.5, 1.0, 5, 1.0)
)
ENDED = QueryTerminatedEvent("a", "b", None)
LIMIT_S = 60.0


class Heard(QueryListener):
    def __init__(self) -> None:
        self.events: list[object] = []
        self.threads: set[str] = set()
        self.ended = threading.Event()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        self._note(event)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        self._note(event)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        self._note(event)
        self.ended.set()

    def _note(self, event: object) -> None:
        self.events.append(event)
        self.threads.add(threading.current_thread().name)


class Raises(QueryListener):
    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        raise ZeroDivisionError("one over nothing")


def test_all_events_come_in_their_order_in_a_thread_of_ours() -> None:
    listeners, heard = Listeners(), Heard()
    listeners.add(heard)
    listeners.add(heard)  # twice is once
    for event in (STARTED, PROGRESS, PROGRESS, ENDED):
        listeners.post(event)
    assert heard.ended.wait(LIMIT_S)
    assert heard.events == [STARTED, PROGRESS, PROGRESS, ENDED]
    assert heard.threads == {"reshape-listeners"}


def test_one_that_raises_is_logged_and_disturbs_nobody(caplog: pytest.LogCaptureFixture) -> None:
    listeners, heard = Listeners(), Heard()
    listeners.add(Raises())
    listeners.add(heard)
    with caplog.at_level(logging.ERROR):
        listeners.post(PROGRESS)
        listeners.post(ENDED)
        assert heard.ended.wait(LIMIT_S)
    assert heard.events == [PROGRESS, ENDED]
    assert "raised at QueryProgressEvent" in caplog.text


def test_one_that_was_removed_hears_nothing_more() -> None:
    listeners, gone, heard = Listeners(), Heard(), Heard()
    listeners.add(gone)
    listeners.add(heard)
    listeners.remove(gone)
    listeners.remove(gone)
    listeners.post(ENDED)
    assert heard.ended.wait(LIMIT_S)
    assert gone.events == []


def test_a_slow_listener_misses_progress_but_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 3)
    go_on, listeners = threading.Event(), Listeners()

    class Slow(Heard):
        def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
            go_on.wait(LIMIT_S)

    slow = Slow()
    listeners.add(slow)
    listeners.post(STARTED)
    for _ in range(10):
        listeners.post(PROGRESS)
    listeners.post(ENDED)
    go_on.set()
    assert slow.ended.wait(LIMIT_S)
    assert 0 < len(slow.events) <= 1 + 3
    assert slow.events[-1] == ENDED


def test_listeners_come_and_go_from_many_threads() -> None:
    listeners = Listeners()
    errors: list[BaseException] = []

    def guarded(action: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                for _ in range(200):
                    action()
            except BaseException as error:
                errors.append(error)

        return run

    def come_and_go() -> None:
        heard = Heard()
        listeners.add(heard)
        listeners.remove(heard)

    threads = [threading.Thread(target=guarded(come_and_go)) for _ in range(4)]
    threads += [threading.Thread(target=guarded(lambda: listeners.post(PROGRESS))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    last = Heard()
    listeners.add(last)
    listeners.post(ENDED)
    assert last.ended.wait(LIMIT_S)
    assert errors == []


def test_progress_is_json() -> None:
    import json

    assert json.loads(PROGRESS.progress.json)["part_read"] == 0.5
    assert PROGRESS.progress.as_dict()["numInputRows"] == 10

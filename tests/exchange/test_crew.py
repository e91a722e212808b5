"""Threads of a listener: those that were needed once have nothing to do later, and go."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from reshape.exchange.transport import crew as crew_module
from reshape.exchange.transport.crew import Crew

# Only what hangs takes as long.
LIMIT_S = 60.0
MANY = 8


def test_one_task_after_the_other_needs_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew_module, "LINGER_S", LIMIT_S)
    crew = Crew("crew")
    together = threading.Barrier(MANY)

    def meet() -> None:
        together.wait(LIMIT_S)

    for _ in range(MANY):
        crew.do(meet)
    workers: set[int] = set()
    for _ in range(MANY):
        _until(lambda: len(crew._waiting) == MANY)
        crew.do(lambda: workers.add(threading.get_ident()))
    _until(lambda: len(crew._waiting) == MANY)
    assert len(workers) == 1
    assert crew.close(LIMIT_S)
    assert not any(thread.is_alive() for thread in crew._threads)


def test_a_thread_that_nobody_needs_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew_module, "LINGER_S", 0.01)
    crew, done = Crew("crew"), threading.Event()
    crew.do(done.set)
    assert done.wait(LIMIT_S)
    _until(lambda: not any(thread.is_alive() for thread in crew._threads))
    assert not crew._waiting


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)

"""Functions that are called once for all rows of a worker, as Spark calls them once for a partition.

Such a function asks for rows when it likes; the host's working thread gives some when there are some. So it runs in a
thread of its own, and the two take turns: one of them always waits for the other.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from enum import Enum
from queue import SimpleQueue

import pyarrow as pa

from reshape.plan.physical import ArrowFunction

# The thread waits for its turn when it is told to end; only a function that catches this would stay longer.
JOIN_S = 5.0


class _Word(Enum):
    MORE = "the function asks for rows"
    DONE = "the function has ended"
    GO_ON = "the function may go on"
    ENDED = "there are no more rows"
    CLOSE = "nobody wants the rest"


class _Closed(BaseException):
    """Ends the function; no Exception, so that it does not take it for an error of its rows."""


class OneCall:
    """Used by the working thread. Errors of the function are raised where it is given rows."""

    def __init__(self, functions: Sequence[ArrowFunction]) -> None:
        self._functions = functions
        self._turns: SimpleQueue[pa.RecordBatch | _Word] = SimpleQueue()
        self._answers: SimpleQueue[pa.RecordBatch | _Word | BaseException] = SimpleQueue()
        self._said: pa.RecordBatch | _Word | BaseException | None = None
        self._thread: threading.Thread | None = None

    def give(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """What the function gives until it wants more than these rows."""
        return self._given(rows)

    def end(self) -> Iterator[pa.RecordBatch]:
        """What the function gives when it hears that there are no more rows."""
        return self._given(_Word.ENDED)

    def close(self) -> None:
        """End the function wherever it waits."""
        if self._thread is not None and self._thread.is_alive():
            self._turns.put(_Word.CLOSE)
            self._thread.join(JOIN_S)

    def _given(self, rows: pa.RecordBatch | _Word) -> Iterator[pa.RecordBatch]:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="reshape-function", daemon=True)
            self._thread.start()
            self._said = self._answers.get()
        taken = False
        while self._said is not _Word.DONE:
            if isinstance(self._said, BaseException):
                raise self._said
            if isinstance(self._said, pa.RecordBatch):
                yield self._said
                self._turns.put(_Word.GO_ON)
            elif taken:
                return
            else:
                taken = True
                self._turns.put(rows)
            self._said = self._answers.get()

    def _run(self) -> None:
        last: _Word | BaseException = _Word.DONE
        try:
            rows = self._rows()
            for function in self._functions:
                rows = iter(function(rows))
            for batch in rows:
                self._turn(batch)
        except BaseException as error:  # the working thread raises it
            last = error
        self._answers.put(last)

    def _rows(self) -> Iterator[pa.RecordBatch]:
        while isinstance(rows := self._turn(_Word.MORE), pa.RecordBatch):
            yield rows

    def _turn(self, said: pa.RecordBatch | _Word) -> pa.RecordBatch | _Word:
        self._answers.put(said)
        turn = self._turns.get()
        if turn is _Word.CLOSE:
            raise _Closed
        return turn

"""A flow that runs in the background: how far it is, what it shows so far, and its result."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from reshape.catalyst.shape import Shape
from reshape.driver.attempts import TEARDOWN_S
from reshape.driver.job_properties import JobProperties
from reshape.driver.launch import LaunchedFlow
from reshape.driver.running_result import FirstPartial
from reshape.driver.session import too_few_slots
from reshape.driver.slot_watch import Expected
from reshape.driver.task_errors import in_short
from reshape.errors import FlowCancelled, FlowFailed, ReshapeError
from reshape.observe.representativeness import Shown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# Spark's refusal of a stage that has more hosts than there are slots, for example after executors were lost.
_TOO_FEW_SLOTS = "SPARK-24819"
CANCEL_S = 0.2
# Freeing takes a moment, or as long as another flow runs.
FREE_S = 2.0


class Query:
    """The handle that :meth:`Flow.start` returns. Spark keeps the result (memory, then disk) until `release`."""

    def __init__(self, launched: LaunchedFlow, result: DataFrame | None = None, shape: Shape | None = None) -> None:
        """``result``: what the query gives, where that is more than the flow's rows; ``shape`` makes running results
        look like it."""
        flow = self._flow = launched.attempts
        self._result = result
        self._shape = shape
        self._flows = launched.flows
        self._df = launched.df
        self._kept = launched.kept
        self._group = f"reshape-query-{flow.name}"
        self._properties = JobProperties(self._df.sparkSession.sparkContext)
        self._done = threading.Event()
        self._error: BaseException | None = None
        self._cancelled = False
        self._turn = self._flows.turns.enter(launched.slots, self._stop)
        self._thread = threading.Thread(target=self._run, name=f"reshape-query-{flow.name}", daemon=True)
        self._thread.start()

    @property
    def isActive(self) -> bool:  # noqa: N802
        """Whether the flow still runs, or waits to run."""
        return not self._done.is_set()

    @property
    def status(self) -> str:
        """How the flow is doing, in a word, and what it waits for: queued, starting, running, done, failed, cancelled.

        A flow is queued while there are too few task slots for it beside those that came before it.
        """
        if not self.isActive:
            return "done" if self._error is None else "cancelled" if self._cancelled else "failed"
        queued = self._flows.turns.queued(self._turn)
        if queued is not None:
            return queued
        waits = self._flows.watch.waits_for(self._flow.name)
        state = "starting" if self._flow.newest is None else "running"
        return state if waits is None else f"{state}: {waits}"

    @property
    def exception(self) -> BaseException | None:
        """The error that ended the flow; None while it runs and after success."""
        return self._error

    def awaitTermination(self, timeout: float | None = None) -> bool:  # noqa: N802
        """Wait for the end and return whether it has come within the time. Raises what the flow failed with."""
        if not self._done.wait(timeout):
            return False
        self._thread.join()
        if self._error is not None:
            raise self._error
        return True

    def result(self, timeout: float | None = None) -> DataFrame:
        """Wait for the complete result and return it as a DataFrame."""
        if not self.awaitTermination(timeout):
            raise TimeoutError(f"the flow {self._flow.name} has not ended within {timeout} s; it is {self.status}")
        return self._df if self._result is None else self._result

    def progress(self) -> list[dict[str, Any]]:
        """Return how many rows wait, were processed and emitted, per operator and worker, as of the newest reports."""
        return self._flow.progress()

    def partial(self) -> pa.Table | None:
        """Return the result as it stands: running aggregates, or a sample of rows; None before there is any."""
        table = self._flow.partial()
        if table is None or self._shape is None:
            return table
        shaped = self._shape.of(table)
        return None if shaped is None else shaped.table

    def shown(self) -> Shown | None:
        """Return the running result with how representative it is of the input so far, as a whole and row by row."""
        shown = self._flow.shown()
        if shown is None or self._shape is None:
            return shown
        shaped = self._shape.of(shown.table)
        if shaped is None:
            return None
        parts = shown.completeness and tuple(shown.completeness[row] for row in shaped.rows)
        return replace(shown, table=shaped.table, completeness=parts)

    def story(self) -> list[str]:
        """Return why load was moved, changed, returned or left alone, in plain words, oldest first."""
        return self._flow.story()

    @property
    def first_partial(self) -> FirstPartial | None:
        """How soon after its workers were ready the flow had a partial result; None before it has one."""
        return self._flow.first_partial

    def cancel(self) -> None:
        """Stop the flow wherever it is, queued, about to start or running, and wait until it has stopped."""
        if self._done.is_set():
            return
        self._cancelled = True
        self._stop("cancelled")
        if self._done.is_set():
            self._thread.join()

    def release(self) -> None:
        """Free the result that Spark keeps; a later action on it runs the flow again."""
        self._kept.unpersist()

    def _stop(self, cause: str) -> None:
        """Whatever the flow's thread is about to do next is refused: its turn, its hosts' meeting, its Spark jobs.
        Returns when it has ended."""
        self._flows.turns.withdraw(self._turn)
        self._flow.stop("the driver", cause)
        context = self._df.sparkSession.sparkContext
        deadline = time.monotonic() + TEARDOWN_S
        # Again and again: a job that is about to be submitted is not there to be cancelled yet.
        while context._jsc is not None and time.monotonic() < deadline:
            context.cancelJobGroup(self._group)
            if self._done.wait(CANCEL_S):
                return

    def _stop_soon(self, cause: str) -> None:
        threading.Thread(target=self._stop, args=(cause,), name=f"reshape-stop-{self._flow.name}", daemon=True).start()

    def _run(self) -> None:
        from pyspark import StorageLevel

        expected = Expected(self._turn.flow, self._group, self._is_under_way, self._stop_soon)
        try:
            if not self._flows.turns.wait(self._turn):
                raise self._flow.failure or FlowFailed("the driver", "it was stopped")
            self._flows.watch.expect(expected)
            self._properties.use()
            self._df.sparkSession.sparkContext.setJobGroup(self._group, f"reshape {self._flow.name}", True)
            self._kept.persist(StorageLevel.MEMORY_AND_DISK)  # not sooner: a flow that is queued has nothing to free
            self._kept.count()
        except Exception as error:
            self._failed(error)
        finally:
            self._flow.join(TEARDOWN_S)
            self._flows.keeps_result(self._flow)
            self._flows.watch.expect_no_more(expected)
            self._flows.turns.end(self._turn)
            self._done.set()

    def _is_under_way(self) -> bool:
        """Have its hosts met, and not been lost since?"""
        newest = self._flow.newest
        return newest is not None and newest.failure is None

    def _failed(self, error: Exception) -> None:
        first: ReshapeError | None = self._flow.failure
        # Hosts that Spark has killed without starting them again say nothing; nobody may wait for them.
        self._flow.fail("the hosts", f"their Spark job has ended: {in_short(error)}")
        if _TOO_FEW_SLOTS in str(error):
            first = too_few_slots(self._df.sparkSession, self._turn.flow)
        self._error = FlowCancelled(f"{self._flow.name} was cancelled") if self._cancelled else first or error
        if self._error is not error:
            self._error.__cause__ = error
        # Spark frees nothing while a result that it is to keep is being made, which may be that of another flow.
        freeing = threading.Thread(target=self._kept.unpersist, name=f"reshape-release-{self._flow.name}", daemon=True)
        freeing.start()
        freeing.join(FREE_S)

    def __repr__(self) -> str:
        return f"Query[{self._flow.name}: {self.status}]"

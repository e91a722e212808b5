"""A flow that runs in the background: how far it is, what it shows so far, and its result."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from reshape.driver.launch import LaunchedFlow
from reshape.driver.running_result import FirstPartial
from reshape.driver.task_errors import in_short
from reshape.errors import FlowCancelled
from reshape.observe.representativeness import Shown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# Cancelled tasks end within a second or two; this only bounds the wait for one that is stuck.
TEARDOWN_S = 30.0


class Query:
    """The handle that :meth:`Flow.start` returns. Spark keeps the result (memory, then disk) until `release`."""

    def __init__(self, launched: LaunchedFlow) -> None:
        flow = self._flow = launched.attempts
        self._df = launched.df
        self._kept = launched.kept
        self._group = f"reshape-query-{flow.name}"
        self._done = threading.Event()
        self._error: BaseException | None = None
        self._cancelled = False
        self._thread = threading.Thread(target=self._run, name=f"reshape-query-{flow.name}", daemon=True)
        self._thread.start()

    @property
    def isActive(self) -> bool:  # noqa: N802
        """Whether the flow still runs."""
        return not self._done.is_set()

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
            raise TimeoutError(f"the flow {self._flow.name} has not ended within {timeout} s")
        return self._df

    def progress(self) -> list[dict[str, Any]]:
        """Return how many rows wait, were processed and emitted, per operator and worker, as of the newest reports."""
        return self._flow.progress()

    def partial(self) -> pa.Table | None:
        """Return the result as it stands: running aggregates, or a sample of rows; None before there is any."""
        return self._flow.partial()

    def shown(self) -> Shown | None:
        """Return the running result with how representative it is of the input so far, as a whole and row by row."""
        return self._flow.shown()

    def story(self) -> list[str]:
        """Return why load was moved, changed, returned or left alone, in plain words, oldest first."""
        return self._flow.story()

    @property
    def first_partial(self) -> FirstPartial | None:
        """How soon after its workers were ready the flow had a partial result; None before it has one."""
        return self._flow.first_partial

    def cancel(self) -> None:
        """Stop the flow, and wait up to half a minute until it has stopped."""
        if self._done.is_set():
            return
        self._cancelled = True
        self._flow.fail("the driver", "cancelled")
        self._df.sparkSession.sparkContext.cancelJobGroup(self._group)
        self._thread.join(TEARDOWN_S)

    def release(self) -> None:
        """Free the result that Spark keeps; a later action on it runs the flow again."""
        self._kept.unpersist()

    def _run(self) -> None:
        context = self._df.sparkSession.sparkContext
        context.setJobGroup(self._group, f"reshape {self._flow.name}", True)
        try:
            self._kept.count()
        except Exception as error:
            first = self._flow.failure
            # Hosts that Spark has killed without starting them again say nothing; nobody may wait for them.
            self._flow.fail("the hosts", f"their Spark job has ended: {in_short(error)}")
            self._error = FlowCancelled(f"{self._flow.name} was cancelled") if self._cancelled else first or error
            if self._error is not error:
                self._error.__cause__ = error
            self._kept.unpersist()
        finally:
            self._flow.join(TEARDOWN_S)
            self._done.set()

    def __repr__(self) -> str:
        state = "running" if self.isActive else "failed" if self._error else "done"
        return f"Query[{self._flow.name}: {state}]"

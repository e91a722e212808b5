"""A flow that runs in the background, with a handle like PySpark's `StreamingQuery`: how far it is, what it shows so
far, and its result."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

import pyarrow as pa

from reshape.catalyst.shape import Shape
from reshape.driver.attempts import TEARDOWN_S
from reshape.driver.job_properties import JobProperties
from reshape.driver.journal import Journal
from reshape.driver.kept import keep
from reshape.driver.launch import LaunchedFlow
from reshape.driver.running_result import FirstPartial
from reshape.driver.session import jvm_has_ended, too_few_slots
from reshape.driver.slot_watch import Expected
from reshape.driver.spark_cluster import cancel_group, free
from reshape.driver.task_errors import in_short
from reshape.errors import FlowCancelled, FlowFailed, ReshapeError
from reshape.observe.charts import Chart, ChartSpec, drawn, first_chart
from reshape.observe.estimates import Estimate
from reshape.observe.page_address import with_page
from reshape.observe.progress import QueryProgress
from reshape.observe.representativeness import Shown
from reshape.observe.top import StickyTop, Top
from reshape.page.runs import RUNS, LiveRun
from reshape.page.server import open_page
from reshape.sinks import check_chart

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# Spark's refusal of a stage that has more hosts than there are slots, for example after executors were lost.
_TOO_FEW_SLOTS = "SPARK-24819"
CANCEL_S = 0.2
# Freeing takes a moment, or as long as another flow runs.
FREE_S = 2.0


class QueryStatus(TypedDict):
    """As PySpark's: what a query does, in words, whether there is input to be processed, and whether it is at it."""

    message: str
    isDataAvailable: bool
    isTriggerActive: bool


@dataclass(frozen=True)
class Whole:
    """A query over the results of flows. ``shape`` makes running results look like its own, where that is possible.
    ``others`` are the flows that it reads beside the first."""

    result: DataFrame
    shape: Shape | None
    others: tuple[LaunchedFlow, ...] = ()


class Query:
    """The handle that :meth:`Flow.start` returns. Spark keeps the result (memory, then disk) until `release`.

    >>> query = reshape.start(by_shop)
    >>> query.awaitTermination(timeout=60), query.status["message"]
    (True, 'done')
    >>> query.release()
    """

    def __init__(self, launched: LaunchedFlow, explained: str, whole: Whole | None = None) -> None:
        """``whole``: what the query gives, where that is more than the flow's rows."""
        self._explained = explained
        self._tops: dict[tuple[int, str | None], StickyTop] = {}
        self._journal = Journal(launched.identity, launched.attempts)
        flow = self._flow = launched.attempts
        self._whole = whole
        flow.presentation.shape = None if whole is None else whole.shape
        self._launched = launched
        self._properties = JobProperties(self._launched.df.sparkSession.sparkContext)
        self._done = threading.Event()
        self._error: BaseException | None = None
        self._stopped = False
        self._turn = self._launched.flows.turns.enter(launched.slots, self._stop)
        self._on_page()
        self._thread = threading.Thread(target=self._run, name=f"reshape-query-{flow.name}", daemon=True)
        self._others: tuple[Query, ...] = ()
        self._journal.start()
        self._thread.start()
        self._others = tuple(Query(other, explained) for other in (whole.others if whole is not None else ()))

    @property
    def id(self) -> str:
        """The flow: the same each time it is started."""
        return self._journal.identity.id

    @property
    def runId(self) -> str:  # noqa: N802
        """This run of the flow, and no other."""
        return self._journal.identity.runId

    @property
    def name(self) -> str:
        """What the flow is called: the setting ``name``."""
        return self._journal.identity.name

    @property
    def isActive(self) -> bool:  # noqa: N802
        """Whether the flow still runs, or waits to run."""
        return self._is_at_work or any(other.isActive for other in self._others)

    @property
    def status(self) -> QueryStatus:
        """How the flow is doing, as PySpark tells it. The message begins with one of queued, starting, running,
        paused, done, failed, stopped, and says what the flow waits for.

        A flow is queued while there are too few task slots for it beside those that came before it. Where Spark's part
        reads several flows, the message is about the first one that has not ended, and says how many are left.
        """
        first = next((flow for flow in (self, *self._others) if flow._is_at_work), self)
        newest = first._flow.newest
        at_work = first._is_at_work and newest is not None and not newest.over
        return QueryStatus(
            message=self._state(),
            isDataAvailable=at_work,
            isTriggerActive=at_work and newest is not None and not newest.control.paused,
        )

    @property
    def _is_at_work(self) -> bool:
        """Whether its own flow has not ended."""
        return not self._done.is_set()

    def _state(self) -> str:
        left = [other for other in self._others if other.isActive]
        if not self._is_at_work and left:
            return f"{left[0]._state()}; {len(left)} of the {1 + len(self._others)} flows that the query reads are left"
        if not self._is_at_work:
            return "done" if self.exception() is None else "stopped" if self._stopped else "failed"
        queued = self._launched.flows.turns.queued(self._turn)
        if queued is not None:
            return queued
        waits = self._launched.flows.watch.waits_for(self._flow.name)
        state = "starting" if self._flow.newest is None else "paused" if self._flow.paused else "running"
        return state if waits is None else f"{state}: {waits}"

    def exception(self) -> BaseException | None:
        """Return the error that ended the flow; None while it runs and after success."""
        errors = [self._error, *(other.exception() for other in self._others)]
        return next((error for error in errors if error is not None), None)

    @property
    def lastProgress(self) -> QueryProgress | None:  # noqa: N802
        """How far the flow is: the newest record; None before its hosts are there."""
        recent = self._journal.recent()
        return recent[-1] if recent else None

    @property
    def recentProgress(self) -> list[QueryProgress]:  # noqa: N802
        """The last hundred records, two a second, the oldest first."""
        return self._journal.recent()

    def explain(self) -> None:
        """Print the operators of the flow, what feeds them, who reads it and where they run."""
        print(self._explained)

    def awaitTermination(self, timeout: float | None = None) -> bool:  # noqa: N802
        """Wait for the end and return whether it has come within the time. Raises what the flow failed with."""
        deadline = None if timeout is None else time.monotonic() + timeout
        if not self._done.wait(timeout):
            return False
        self._thread.join()
        if self._error is not None:
            raise self._error
        left = (None if deadline is None else max(0.0, deadline - time.monotonic()) for _ in self._others)
        return all(other.awaitTermination(left_s) for other, left_s in zip(self._others, left, strict=True))

    def result(self, timeout: float | None = None) -> DataFrame:
        """Wait for the complete result and return it as a DataFrame."""
        if not self.awaitTermination(timeout):
            raise TimeoutError(f"the flow {self._flow.name} has not ended within {timeout} s; it is {self._state()}")
        return self._df

    def partial(self) -> pa.Table | None:
        """Return the result as it stands: running aggregates, or a sample of rows; None before there is any."""
        table, shape = self._flow.partial(), None if self._whole is None else self._whole.shape
        if table is None or shape is None:
            return table
        shaped = shape.of(table)
        return None if shaped is None else shaped.table

    def shown(self) -> Shown | None:
        """Return the running result with how representative it is of the input so far, as a whole and row by row."""
        return self._flow.presentation.of(self._flow.shown())

    def bar(self, x: str, y: str) -> Chart:
        """Draw a bar of ``y`` for each ``x``, with what is expected in the end where that can be estimated: on the live
        page and in the notebook from now on. Returns what the chart shows at this moment."""
        return self.draw(ChartSpec("bar", x, y))

    def line(self, x: str, y: str, series: str | None = None) -> Chart:
        """Draw ``y`` over ``x``, a line for each ``series``, as `bar` does. Where points are not there yet the line is
        marked; a flow that was started as ``flow.line(...)`` keeps the order that lines need."""
        return self.draw(ChartSpec("line", x, y, series))

    def draw(self, chart: ChartSpec) -> Chart:
        """Show a chart from now on. Returns what it shows at this moment."""
        check_chart(chart, self._df.schema)
        self._flow.presentation.chart = chart
        return drawn(chart, self.shown())

    def top(self, n: int = 10, by: str | None = None) -> Top | None:
        """Return the ``n`` largest rows of the running result by a column of numbers (the first aggregate unless
        given), the same ones from call to call as long as no other is clearly larger, and how many more there are; None
        before there is any. Of very many groups each worker shows the thousand that have most of the first aggregate.
        """
        shown = self.shown()
        if shown is None:
            return None
        if (n, by) not in self._tops:
            self._tops[n, by] = StickyTop(n, by, self._flow.presentation.keys(self._flow.plan.result_keys))
        return self._tops[n, by].choose(shown.table, shown.left_out, final=shown.final)

    def ratio(self, over: str, under: str) -> tuple[Estimate | None, ...] | str:
        """Estimate the final ratio of two counts or sums, for each row of `shown`; or return why there is none."""
        return self._flow.ratio(over, under)

    @property
    def _df(self) -> DataFrame:
        return self._launched.df if self._whole is None else self._whole.result

    def story(self) -> list[str]:
        """Return why load was moved, changed, returned or left alone, in plain words, oldest first."""
        return self._flow.story()

    @property
    def first_partial(self) -> FirstPartial | None:
        """How soon after its workers were ready the flow had a partial result; None before it has one."""
        return self._flow.first_partial

    def pause(self) -> None:
        """Let the flow read, send and process nothing until ``resume``. Everything stays as it is, also its slots; one
        that has not begun yet, or that Spark starts again, begins paused."""
        self._flow.pause()
        for other in self._others:
            other.pause()

    def resume(self) -> None:
        """Let a paused flow go on."""
        self._flow.resume()
        for other in self._others:
            other.resume()

    def stop(self) -> None:
        """Stop the flow wherever it is, queued, about to start, running or paused; wait until it has stopped."""
        for other in self._others:
            other.stop()
        if self._done.is_set():
            return
        self._stopped = True
        self._stop("stopped")
        if self._done.is_set():
            self._thread.join()

    @property
    def url(self) -> str:
        """The address of the live page, for a browser on this machine. Whoever has it may see and stop all queries of
        this process. The page is served from the first call to the end of the process."""
        return open_page().url(self._on_page())

    def show(self) -> None:
        """Show it live in the output of this cell, where this is a notebook; elsewhere print how it is doing. A query
        as the last expression of a cell does the same."""
        from reshape.notebook.view import in_notebook, show

        if in_notebook():
            show(self._live, self._chart)
        else:
            print(self)

    def _ipython_display_(self) -> None:
        # Not _repr_mimebundle_: only an output that was displayed can be replaced, by what is to be saved.
        self.show()

    def _chart(self) -> Chart | None:
        """What is drawn of it now: what was asked for, else the first measure by the first column."""
        shown, spec = self.shown(), self._flow.presentation.chart
        if shown is None:
            return None
        if spec is None:
            spec = first_chart(shown.table, self._flow.presentation.keys(self._flow.plan.result_keys))
        return None if spec is None else drawn(spec, shown)

    @property
    def _live(self) -> LiveRun:
        return LiveRun(self.name, self, self._flow.record, self._flow.look)

    def _on_page(self) -> int:
        """The number by which the page knows it."""
        return RUNS.add(self._live)

    def release(self) -> None:
        """Free the result that Spark keeps; a later action on it runs the flow again."""
        self._launched.kept.unpersist()
        for other in self._others:
            other.release()

    @property
    def _group(self) -> str:
        return f"reshape-query-{self._flow.name}"

    def _stop(self, cause: str) -> None:
        """Whatever the flow's thread is about to do next is refused: its turn, its hosts' meeting, its Spark jobs.
        Returns when it has ended."""
        self._launched.flows.turns.withdraw(self._turn)
        self._flow.stop("the driver", cause)
        context = self._launched.df.sparkSession.sparkContext
        deadline = time.monotonic() + TEARDOWN_S
        # Again and again: a shuffle that is about to be submitted is not there to be cancelled yet.
        while time.monotonic() < deadline:
            if not cancel_group(context, self._group):  # the session is being stopped, and its jobs with it
                self._done.wait(FREE_S)
                return
            if self._done.wait(CANCEL_S):
                return

    def _stop_soon(self, cause: str) -> None:
        threading.Thread(target=self._stop, args=(cause,), name=f"reshape-stop-{self._flow.name}", daemon=True).start()

    def _run(self) -> None:
        expected = Expected(self._turn.flow, self._group, self._is_under_way, self._stop_soon)
        try:
            if not self._launched.flows.turns.wait(self._turn):
                raise self._flow.failure or FlowFailed("the driver", "it was stopped")
            self._launched.flows.watch.expect(expected)
            self._properties.use()
            self._launched.df.sparkSession.sparkContext.setJobGroup(
                self._group, with_page(f"reshape {self._flow.name}"), True
            )
            # Not sooner: a flow that is queued has nothing to free.
            keep(self._launched.kept)
        except Exception as error:
            self._failed(error)
        finally:
            try:
                self._wind_up(expected)
            finally:
                self._done.set()  # whatever has gone wrong: somebody may wait for it

    def _wind_up(self, expected: Expected) -> None:
        self._flow.join(TEARDOWN_S)
        self._launched.flows.keeps_result(self._flow)
        self._launched.flows.watch.expect_no_more(expected)
        self._launched.flows.turns.end(self._turn)
        self._journal.close(lambda: self._error)

    def _is_under_way(self) -> bool:
        """Have its hosts met, and not been lost since?"""
        newest = self._flow.newest
        return newest is not None and newest.failure is None

    def _failed(self, error: Exception) -> None:
        first: ReshapeError | None = self._flow.failure
        # Hosts that Spark has killed without starting them again say nothing; nobody may wait for them.
        self._flow.fail("the hosts", f"their Spark job has ended: {in_short(error)}")
        if _TOO_FEW_SLOTS in str(error):
            first = too_few_slots(self._launched.df.sparkSession, self._turn.flow)
        elif jvm_has_ended(self._launched.df.sparkSession, error):
            first = FlowFailed("Spark", "its JVM has ended: it was killed, or ran out of memory")
        self._error = FlowCancelled(f"{self._flow.name} was stopped") if self._stopped else first or error
        for other in self._others:  # no result will come of them
            other._stop_soon(f"another flow of the query has failed: {self._flow.name}")
        if self._error is not error:
            self._error.__cause__ = error
        # Spark frees nothing while a result that it is to keep is being made, which may be that of another flow.
        freeing = threading.Thread(
            target=free, args=(lambda: self._launched.kept,), name=f"reshape-release-{self._flow.name}", daemon=True
        )
        freeing.start()
        freeing.join(FREE_S)

    def __repr__(self) -> str:
        return f"Query[{self._flow.name}: {self._state()}]"

"""All flows of a Spark application that have a result: what they need of its slots, and whose turn it is."""

from __future__ import annotations

import re
import threading
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from reshape.driver.slot_use import SlotUse, look
from reshape.driver.slot_watch import SlotWatch
from reshape.driver.slots import FlowSlots
from reshape.driver.turns import Turns

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame

    from reshape.driver.attempts import Attempts

_HOSTS = "reshape_hosts_of_"
# The end of a name is that of `unique_name`.
_NAMED = re.compile(rf"{_HOSTS}(.+?-[0-9a-f]{{12}})\(")
_SESSIONS: weakref.WeakKeyDictionary[Any, SessionFlows] = weakref.WeakKeyDictionary()
_LOCK = threading.Lock()


class SessionFlows:
    """Of one Spark context."""

    def __init__(self, context: SparkContext) -> None:
        # Weakly, here and below: a flow is forgotten when nobody can run it, a session when it has been stopped.
        self._context = weakref.ref(context)
        self._flows: weakref.WeakKeyDictionary[Attempts, FlowSlots] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()
        self.most_slots = 0  # that were ever there
        self.watch = SlotWatch(self._look, self._patience_s)
        self.turns = Turns(self.slots, self.watch.running)

    def slots(self) -> int:
        """Tasks that can run at the same time."""
        context = self._live()._jsc.sc()
        slots = int(context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile()))
        self.most_slots = max(self.most_slots, slots)
        return slots

    def add(self, attempts: Attempts, flow: FlowSlots) -> None:
        """A flow whose result an action may ask for."""
        with self._lock:
            self._flows[attempts] = flow

    def keeps_result(self, attempts: Attempts) -> None:
        """A started flow has ended: Spark has its rows, so that what reads them needs no hosts; or nobody gets them."""
        with self._lock:
            self._flows.pop(attempts, None)

    def read_by(self, sources: Iterable[DataFrame]) -> tuple[FlowSlots, ...]:
        """Flows whose results these DataFrames are made of."""
        with self._lock:
            flows = {flow.name: flow for flow in self._flows.values()}
        if not flows:
            return ()
        # What Spark has cached is shown with its plan too: it may not be there yet.
        plans = [str(df._jdf.queryExecution().withCachedData().toString()) for df in sources]
        names = dict.fromkeys(name for plan in plans for name in _NAMED.findall(plan))
        return tuple(flows[name] for name in names if name in flows)

    def _live(self) -> Any:
        context = self._context()
        if context is None or context._jsc is None:
            raise OSError("the Spark session has been stopped")
        return context

    def _look(self, groups: Iterable[str]) -> SlotUse:
        return look(self._live(), self.slots(), groups)

    def _patience_s(self) -> float:
        """As long as Spark itself waits for slots before it refuses a barrier stage."""
        conf: Any = self._live()._jsc.sc().conf()
        interval_s = conf.getTimeAsSeconds("spark.scheduler.barrier.maxConcurrentTasksCheck.interval", "15s")
        return float(interval_s * conf.getInt("spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures", 40))


def hosts_function_name(flow: str) -> str:
    """What the function of a flow's hosts is called, so that plans of Spark tell whose hosts they run."""
    return f"{_HOSTS}{flow}"


def flows_of(context: SparkContext) -> SessionFlows:
    with _LOCK:
        if context not in _SESSIONS:
            _SESSIONS[context] = SessionFlows(context)
        return _SESSIONS[context]


def all_sessions() -> list[SessionFlows]:
    with _LOCK:
        return list(_SESSIONS.values())

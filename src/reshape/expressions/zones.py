"""A time zone as Java has it: read in the driver and sent along, so that hosts need no table of zones of their own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from reshape.expressions.table import SessionFacts

Seconds = npt.NDArray[np.int64]

# The calendar repeats after 400 years, weekdays included, and with it all yearly rules.
CYCLE = 146_097 * 86_400


@dataclass(frozen=True, slots=True)
class Zone:
    """Offsets in seconds east of UTC, each from an instant (in seconds since 1970) on; `offsets` has one more.

    Where `repeats` is true the changes of the last 400 years in the table come again and again.
    """

    name: str
    instants: tuple[int, ...]
    offsets: tuple[int, ...]
    repeats: bool

    def offset_at(self, seconds: Seconds) -> Seconds:
        """The offset in force at instants."""
        if not self.instants:
            return np.full(len(seconds), self.offsets[0], dtype=np.int64)
        within = self._within(seconds, self.instants[-1])
        index = np.searchsorted(np.array(self.instants, dtype=np.int64), within, side="right")
        return np.array(self.offsets, dtype=np.int64)[index]

    def start_of_day(self, days: npt.NDArray[Any]) -> Seconds:
        """The instant at which local days begin: after a gap if midnight is in one, the first of two midnights."""
        local = days.astype(np.int64) * 86_400
        if not self.instants:
            return local - self.offsets[0]
        last_start = self.instants[-1] - 2 * 86_400
        within = self._within(local, last_start)
        instants = np.array(self.instants, dtype=np.int64)
        offsets = np.array(self.offsets, dtype=np.int64)
        # A local time is behind a change once both the old and the new offset put it there.
        starts = instants + np.minimum(offsets[:-1], offsets[1:])
        ends = instants + np.maximum(offsets[:-1], offsets[1:])
        index = np.searchsorted(ends, within, side="right")
        answer = within - offsets[index]
        inside = np.minimum(index, len(instants) - 1)
        in_gap = (index < len(instants)) & (offsets[inside + 1] > offsets[inside]) & (within >= starts[inside])
        return np.asarray(np.where(in_gap, instants[inside], answer) + (local - within))

    def _within(self, seconds: Seconds, end: int) -> Seconds:
        """Times behind the table as the same times some cycles before."""
        if not self.repeats:
            return seconds
        cycles = np.maximum(-((end - seconds) // CYCLE), 0)
        return np.asarray(seconds - cycles * CYCLE)


def read_zone(expression: Any, facts: SessionFacts) -> dict[str, Any]:
    """The zone of an expression that needs one."""
    identifier = expression.timeZoneId()
    name = str(identifier.get()) if identifier.isDefined() else facts.time_zone
    return {"zone": _zone(name)}


@cache
def _zone(name: str) -> Zone:
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    assert context is not None
    jvm: Any = context._jvm
    rules = jvm.org.apache.spark.sql.catalyst.util.DateTimeUtils.getZoneId(name).getRules()
    instant = jvm.java.time.Instant.ofEpochSecond(-(2**40))
    offsets = [rules.getOffset(instant).getTotalSeconds()]
    instants: list[int] = []
    repeats = not rules.getTransitionRules().isEmpty()
    fixed = rules.getTransitions().size()
    # Behind the fixed changes a whole cycle of yearly ones, and two years more so that a cycle starts behind them.
    end = None
    while True:
        change = rules.nextTransition(instant)
        if change is None or (end is not None and change.toEpochSecond() > end):
            return Zone(name, tuple(instants), tuple(offsets), repeats)
        instant = change.getInstant()
        instants.append(change.toEpochSecond())
        offsets.append(change.getOffsetAfter().getTotalSeconds())
        if repeats and len(instants) == max(fixed, 1):
            end = instants[-1] + CYCLE + 2 * 366 * 86_400

"""Estimates of a flow's final result while it runs: where they are valid, and which part of the input stands behind
what is shown. `docs/estimates.md` says why it is so."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reshape.driver.control_plane import ControlPlane, PortId
from reshape.driver.running_result import GroupsShown, RunningResult
from reshape.kernels.hashing import owners
from reshape.observe.estimates import (
    CONFIDENCE,
    LEAST_BATCHES,
    Estimate,
    Ratio,
    RunningSums,
    Series,
    Total,
)
from reshape.observe.representativeness import similarity
from reshape.operators.group_by import GroupBySpec
from reshape.plan.physical import PhysicalOperator, PhysicalPlan
from reshape.scan.scan import Scan

# An operator that is behind with some keys gives a distorted sample to those behind it.
_LEAST_SIMILAR = 0.99

_NOT_A_SUM = "only counts, sums and means of a last groupBy are estimated"

Estimated = tuple[Estimate | None, ...] | str


@dataclass(frozen=True, slots=True)
class _Road:
    """The way of the sampled source's rows: through these inputs to the last group-by."""

    source: int
    rows: int
    through: tuple[PortId, ...]
    last: int
    least_part: float  # of the input, for a batch


class Estimating:
    """Of one attempt. Any thread may look and ask."""

    def __init__(
        self, plan: PhysicalPlan, scans: Mapping[int, Scan], result: RunningResult, control: ControlPlane
    ) -> None:
        self._plan = plan
        self._result = result
        self._control = control
        self._lock = threading.Lock()
        self._road = road_of(plan, scans)
        self._series = Series(self._road.least_part if isinstance(self._road, _Road) else 1.0)
        self._news = 0
        self._found: dict[Total | Ratio, tuple[Estimate | None, ...]] = {}  # from what is shown now
        self._seen: tuple[GroupsShown, RunningSums] | str = "it has shown nothing yet"

    def look(self) -> None:
        """Take in what is shown now, if it is new."""
        road = self._road
        if isinstance(road, str):
            return
        with self._lock:
            news = self._result.news
            if news == self._news:
                return
            self._news = news
            self._found.clear()
            shown = self._result.groups(road.last)
            if isinstance(shown, str):
                self._seen = shown
                return
            parts = self._parts(road)  # after what is shown: rows that are shown have been counted by now
            sums = self._sums(shown)
            self._seen = (shown, sums)
            if isinstance(parts, str):
                self._seen = parts
                return
            at, routed = parts
            # More may have been processed than senders have reported yet: then it stands for more of the input, too.
            done = np.divide(shown.processed, routed, out=np.ones(len(routed)), where=routed > 0)
            self._series.add((at * done).clip(0.0, 1.0), sums)

    def shown(self, *, complete: bool) -> tuple[pa.Table | None, Mapping[str, Estimated]]:
        """The running result, and for each count, sum and mean its estimates or the reason why there are none."""
        if isinstance(self._road, str):
            return self._result.table(), dict.fromkeys(self._names(), self._road)
        with self._lock:
            if isinstance(self._seen, str) and not complete:
                return self._result.table(), dict.fromkeys(self._names(), self._seen)
            if complete:
                shown = self._result.groups(self._road.last)
                if isinstance(shown, str):
                    return self._result.table(), {}
                found: dict[str, Estimated] = {
                    name: _exact(shown, columns) for name, columns in shown.groups.of.items()
                }
            else:
                assert not isinstance(self._seen, str)
                shown, sums = self._seen
                found = {name: self._estimated(_what(of), sums) for name, of in shown.groups.of.items()}
            return _table(shown), dict.fromkeys(self._names(), _NOT_A_SUM) | found

    def ratio(self, over: str, under: str) -> Estimated:
        if isinstance(self._road, str):
            return self._road
        with self._lock:
            if isinstance(self._seen, str):
                return self._seen
            shown, sums = self._seen
            columns = [shown.groups.of.get(name, ()) for name in (over, under)]
            if any(len(column) != 1 for column in columns):
                totals = sorted(name for name, column in shown.groups.of.items() if len(column) == 1)
                return f"a ratio is that of two counts or sums, and those are {', '.join(totals) or 'none'}"
            return self._estimated(Ratio(columns[0][0], columns[1][0]), sums)

    def _estimated(self, what: Total | Ratio, sums: RunningSums) -> Estimated:
        if what not in self._found:
            self._found[what] = self._series.estimates(what, sums)
        found = self._found[what]
        if any(found):
            return found
        return (
            f"too little has been read: it takes {LEAST_BATCHES} rounds of splits, and groups that come in all of them"
        )

    def _parts(self, road: _Road) -> tuple[float, npt.NDArray[np.int64]] | str:
        """Which part of the input has reached the last group-by, and how many rows of each partition that were."""
        part = self._result.sources.rows()[road.source] / road.rows
        for port in road.through:
            rows = self._control.rows_of(port)
            if similarity(rows.routed, rows.processed) < _LEAST_SIMILAR:
                label = self._plan.operators[port[0]].label
                return f"{label} is behind with some keys, so that what it has given is no fair sample"
            routed = int(rows.routed.sum())
            part *= float(rows.processed.sum()) / routed if routed else 1.0
            part *= self._result.part_sent(port[0])
        rows = self._control.rows_of((road.last, 0))
        if rows.drained:
            return "all has been read and processed: the result is being put together"
        return min(part, 1.0), rows.routed

    def _sums(self, shown: GroupsShown) -> RunningSums:
        hashes = shown.groups.hashes
        keyed = bool(self._plan.operators[self._last.id].ports[0].keys)
        owner = owners(hashes, self._plan.workers) if keyed else np.zeros(len(hashes), dtype=np.int64)
        return RunningSums(hashes.tolist(), owner.astype(np.int64), shown.groups.sums, shown.left_out == 0)

    @property
    def _last(self) -> PhysicalOperator:
        return next(operator for operator in self._plan.operators if operator.target is None)

    def _names(self) -> list[str]:
        """Columns for which people expect an estimate."""
        logic = self._last.logic
        return [aggregate.name for aggregate in logic.aggregates] if isinstance(logic, GroupBySpec) else []


def road_of(plan: PhysicalPlan, scans: Mapping[int, Scan]) -> _Road | str:
    """The way of a random sample of the input to the result; in words why there is none, if so."""
    last = [operator for operator in plan.operators if operator.target is None]
    if len(last) != 1 or not isinstance(last[0].logic, GroupBySpec) or last[0].functions:
        return _NOT_A_SUM
    through: list[PortId] = []
    operator, at = last[0], 0
    while True:
        port = operator.ports[at]
        if len(port.sources) + len(port.operators) != 1:
            return f"{operator.label} reads several inputs, of which different parts have been read"
        if port.sources:
            return _sampled(plan, port.sources[0], scans, tuple(through), last[0].id)
        operator = plan.operators[port.operators[0]]
        streams = [number for number in range(len(operator.ports)) if operator.logic.gives_at_once(number)]
        if not streams or operator.functions:
            why = "a function of yours follows it" if operator.functions else "it gives rows at its end"
            return f"what {operator.label} gives early need not be a fair sample: {why}"
        at = streams[0]
        through.insert(0, (operator.id, at))


def _sampled(
    plan: PhysicalPlan, source: int, scans: Mapping[int, Scan], through: tuple[PortId, ...], last: int
) -> _Road | str:
    scan = scans.get(source)
    if scan is None:
        return f"Spark reads source {source}, in an order that is not random"
    if plan.ordered:
        return f"source {source} is read in its own order, as a line chart needs it, and that is not random"
    rows = [split.rows for split in scan.splits]
    total = sum(count for count in rows if count is not None)
    if None in rows or not total:
        return f"nobody knows how many rows source {source} has"
    least_part = plan.hosts * max(count for count in rows if count is not None) / total
    if least_part * LEAST_BATCHES > 1:
        needed = LEAST_BATCHES * plan.hosts
        return f"source {source} has {len(rows)} splits: estimates take {needed} or more, of about the same size"
    return _Road(source, total, through, last, least_part)


def _what(columns: tuple[int, ...]) -> Total | Ratio:
    return Total(columns[0]) if len(columns) == 1 else Ratio(columns[0], columns[1])


def _table(shown: GroupsShown) -> pa.Table:
    return pa.Table.from_batches([shown.groups.rows])


def _exact(shown: GroupsShown, columns: tuple[int, ...]) -> tuple[Estimate | None, ...]:
    """The complete result: nothing is uncertain."""
    sums = shown.groups.sums
    with np.errstate(divide="ignore", invalid="ignore"):
        values = sums[:, columns[0]] if len(columns) == 1 else sums[:, columns[0]] / sums[:, columns[1]]
    found = values.tolist()
    return tuple(Estimate(value, value, value, CONFIDENCE) if np.isfinite(value) else None for value in found)

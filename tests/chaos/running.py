"""Runs plans by threads under chaos: sources that trickle, links that are slow, a control plane that ticks fast."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from reshape.control.balancing import Balancing
from reshape.driver import bounds
from reshape.exchange.transport.streams import Outlet
from reshape.host.host import HostSettings
from reshape.plan.physical import PhysicalPlan
from reshape.sender import flushing
from reshape.testing import Cut, ThreadCluster, ThreadedFlow, cut_up
from reshape.testing.cutting import Partitions

from .brain import chaos
from .samples import Sample
from .script import STRATEGY, Script, scripted
from .transfers import Doings
from .valves import GatedCluster, Valves

# The brain hears of everything about so often; a run of a few tenths of a second then has dozens of events.
REPORT_S = 0.02
ROW_S = (0.0, 0.0002, 0.0005)


@dataclass(frozen=True, slots=True)
class Weather:
    """What a run has to put up with, in seconds: waits of sources between two batches, of links before a message, of
    control messages before they are heard, and of workers for each row, so that rows wait."""

    source_s: float = 0.03
    link_s: float = 0.0
    control_s: float = 0.0
    row_s: float = 0.0

    @classmethod
    def of(cls, seed: int) -> Weather:
        """A third of the runs have slow links and delayed control."""
        rng = Random(f"weather {seed}")
        if seed % 3:
            return cls(rng.choice((0.01, 0.03, 0.05)), row_s=rng.choice(ROW_S))
        return cls(0.03, rng.choice((0.002, 0.005, 0.01)), rng.choice((0.01, 0.03, 0.1)), rng.choice(ROW_S))


class PacedCluster(ThreadCluster):
    """Sources wait a little between two batches, as over a slow link."""

    def __init__(self, seed: int, pace_s: float, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._seed = seed
        self._pace_s = pace_s

    def batches(self, source: int, partition: int) -> Iterator[pa.RecordBatch]:
        rng = Random(f"{self._seed} {source} {partition}")
        for batch in super().batches(source, partition):
            yield batch
            self.cancelled.wait(rng.uniform(0, self._pace_s))


@contextmanager
def fast_control() -> Iterator[None]:
    """Rows leave, and sorts begin, earlier than by default: a short run sees many transfers."""
    with patch.object(flushing, "FLUSH_S", REPORT_S / 2), patch.object(bounds, "GATHER_S", REPORT_S):
        yield


@contextmanager
def slow_links(seed: int, most_s: float) -> Iterator[None]:
    """Messages between hosts, and from sources to hosts, take up to so long, each its own time."""
    if not most_s:
        yield
        return
    send, rng = Outlet.send, Random(f"links {seed}")

    def slow(self: Outlet, *arguments: Any) -> None:
        time.sleep(rng.uniform(0, most_s))
        send(self, *arguments)

    with patch.object(Outlet, "send", slow):
        yield


def balanced_by(plan: PhysicalPlan, balancing: Balancing, row_s: float = 0.0) -> PhysicalPlan:
    """The same plan with this brain at every input."""
    operators = tuple(replace(operator, mitigation=balancing, cost_s_per_row=row_s) for operator in plan.operators)
    return replace(plan, operators=operators, report_s=REPORT_S)


def with_chaos(plan: PhysicalPlan, weather: Weather) -> PhysicalPlan:
    return balanced_by(plan, Balancing("chaos", delay_s=weather.control_s), weather.row_s)


def run_script(sample: Sample, script: Script, doings: Doings) -> pa.Table:
    """Run a sample with a brain at each input that works through a script; its result."""
    valves = Valves()
    with scripted(doings, valves, script), fast_control():
        plan = balanced_by(sample.plan(), Balancing(STRATEGY))
        result = _run_whole(ThreadedFlow(plan, sample.sources, cluster=partial(GatedCluster, valves)))
    assert valves.gates
    assert all(gate.is_open for gate in valves.gates.values()), "a script was not worked through"
    return result


def run_chaos(
    plan: PhysicalPlan,
    sources: Sequence[Partitions],
    doings: Doings,
    *,
    weather: Weather | None = None,
    settings: HostSettings = HostSettings(),  # noqa: B008 - frozen
) -> pa.Table:
    """Run a plan under chaos; its result."""
    weather = weather or Weather.of(doings.seed)
    with chaos(doings), fast_control(), slow_links(doings.seed, weather.link_s):
        cluster = partial(PacedCluster, doings.seed, weather.source_s)
        return _run_whole(ThreadedFlow(with_chaos(plan, weather), sources, cluster=cluster), settings)


def _run_whole(flow: ThreadedFlow, settings: HostSettings = HostSettings()) -> pa.Table:  # noqa: B008 - frozen
    """The result of a flow whose brains were heard to the end: it would go on without one that raises."""
    result = flow.run(settings)
    assert flow.attempts.newest is not None
    for control in flow.attempts.newest.control.ports.values():
        assert control.line.gave_up is None, control.line.gave_up
    return result


def cut_sources(tables: Sequence[pa.Table], cut: Cut) -> list[Partitions]:
    return [cut_up(table, np.random.default_rng([cut.seed, number]), cut) for number, table in enumerate(tables)]

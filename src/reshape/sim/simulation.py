"""Runs a scenario with its brains, one per operator, until every row has been processed."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from reshape.control.brain import Brain
from reshape.control.errors import require
from reshape.sim.agenda import Agenda, moment
from reshape.sim.operator import SimulatedOperator
from reshape.sim.recorder import OperatorRun
from reshape.sim.scenario import Scenario
from reshape.sim.source import KeyedInput
from reshape.sim.worker import ROUNDING

LOG = logging.getLogger(__name__)


def simulate(scenario: Scenario, *brains: Brain) -> list[OperatorRun]:
    """What happens, one result per operator. The same scenario and the same brains give the same results."""
    require(
        len(brains) == len(scenario.stages),
        "brains",
        len(brains),
        f"one for each of {len(scenario.stages)} stages",
    )
    agenda = Agenda()
    operators = _operators(scenario, brains, agenda)
    agenda.run()
    runs = [operator.result() for operator in operators]
    for run in runs:
        if LOG.isEnabledFor(logging.INFO):
            for decision in run.decisions:
                LOG.info("%s: %s", run.name, decision)
        LOG.info("%s: %d rows in %.2f virtual seconds", run.name, run.rows, run.total_s)
    return runs


def _operators(scenario: Scenario, brains: Sequence[Brain], agenda: Agenda) -> list[SimulatedOperator]:
    source = scenario.source
    rows = (
        KeyedInput(source.phases)
        if source.bursts is None
        else KeyedInput.in_bursts(source.phases, source.bursts, source.rows_per_s, scenario.seed)
    )
    operators = [SimulatedOperator(scenario.stages[0], brains[0], rows, scenario, agenda)]
    _SourceFlow(rows, source.rows_per_s, scenario.tick_s, operators[0], agenda)
    for stage, brain in zip(scenario.stages[1:], brains[1:], strict=True):
        rows = KeyedInput(stage.input)
        operators.append(SimulatedOperator(stage, brain, rows, scenario, agenda))
        _StageFlow(rows, operators[-2], operators[-1], scenario.tick_s, agenda)
    return operators


class _SourceFlow:
    """Sends a group per tick; rows that find a full queue stop the source until they are on their way."""

    def __init__(
        self, rows: KeyedInput, rows_per_s: float, tick_s: float, operator: SimulatedOperator, agenda: Agenda
    ) -> None:
        self._rows = rows
        self._rate = rows_per_s
        self._tick_s = tick_s
        self._operator = operator
        self._agenda = agenda
        self._ticks = 0
        self._lost = 0.0  # time that full queues have cost
        agenda.at(tick_s, self._tick)

    def _tick(self) -> None:
        self._ticks += 1
        self._go_on(self._operator.offer(self._rows.take(self._progress())))

    def _retry(self) -> None:
        self._go_on(self._operator.retry())

    def _go_on(self, blocked_until: float | None) -> None:
        if blocked_until is not None:
            self._agenda.at(blocked_until, self._retry)
        elif self._progress() == self._rows.total:
            self._operator.end_input()
        else:
            planned = moment(self._ticks + 1, self._tick_s) + self._lost
            self._lost += max(0.0, self._agenda.now - planned)
            self._agenda.at(planned, self._tick)

    def _progress(self) -> int:
        return min(self._rows.total, int(self._ticks * self._tick_s * self._rate + ROUNDING))


class _StageFlow:
    """Passes on what the stage before has finished, in proportion when the two inputs differ in size."""

    def __init__(
        self,
        rows: KeyedInput,
        upstream: SimulatedOperator,
        operator: SimulatedOperator,
        tick_s: float,
        agenda: Agenda,
    ) -> None:
        self._rows = rows
        self._upstream = upstream
        self._operator = operator
        agenda.every(tick_s, self._tick)

    def _tick(self) -> bool:
        finished = self._upstream.advance()
        self._operator.offer(self._rows.take(finished * self._rows.total // self._upstream.total))
        if finished == self._upstream.total:
            self._operator.end_input()
        return finished < self._upstream.total

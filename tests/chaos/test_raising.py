"""A strategy that raises is asked no more: its flow goes on without it, the result is exact, and the story says so."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

import pytest
from tests.faults.steps import faults_in

from reshape.control.balancing import Balancing
from reshape.control.commands import Command, MoveBacklog
from reshape.control.events import (
    BacklogMoved,
    Drained,
    Event,
    InputEnded,
    MetricsCollected,
    RoutingApplied,
    StateTransferred,
    TransferFailed,
)
from reshape.control.profile import OperatorProfile
from reshape.testing import ThreadedFlow

from .brain import strategy
from .running import balanced_by, fast_control
from .samples import WORKERS, Sample, group, join, sort
from .script import ScriptedBrain, each_transfer
from .transfers import Doings
from .valves import GatedCluster, Valves

FLOWS: dict[str, Callable[[], Sample]] = {
    "join": lambda: join("full"),
    "group": lambda: group(combined=False),
    "sort": sort,
}
KINDS = (MetricsCollected, RoutingApplied, StateTransferred, BacklogMoved, InputEnded, Drained)


class Raising(ScriptedBrain):
    """Works through a script until the first event of a kind; whatever it has held still goes on then."""

    def __init__(self, kind: type[Event], profile: OperatorProfile, valves: Valves) -> None:
        super().__init__(profile, Doings(), valves, each_transfer)
        self._kind = kind
        self._raised = False

    def handle(self, event: Event) -> list[Command]:
        assert not self._raised, "it was asked again"
        if isinstance(event, self._kind):
            self.let_go()
            self._raised = True
            raise ZeroDivisionError("one over nothing")
        return super().handle(event)

    def let_go(self) -> None:
        self.valves.go_on()
        self.valves.release()
        self.gate.open()


class Astray(Raising):
    """Begins well, and then wants rows to go to a worker that there is not."""

    def handle(self, event: Event) -> list[Command]:
        commands = ScriptedBrain.handle(self, event)
        if isinstance(event, RoutingApplied):
            self.let_go()
            return [*commands, MoveBacklog(99, event.id, 99, 0, WORKERS, 0, 10)]
        return commands


def run(sample: Sample, build: Callable[[OperatorProfile, Valves], Raising]) -> list[str]:
    """Check the result; the story."""
    valves = Valves()
    with strategy("raising", lambda profile, _: build(profile, valves)), valves.built_in(), fast_control():
        plan = balanced_by(sample.plan(), Balancing("raising"))
        flow = ThreadedFlow(plan, sample.sources, cluster=partial(GatedCluster, valves))
        sample.check(flow.run())
    return flow.attempts.story()


@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_strategy_that_raises(kind: type[Event], flow: str, caplog: pytest.LogCaptureFixture) -> None:
    sample = FLOWS[flow]()
    with caplog.at_level(logging.WARNING, "reshape"):
        story = run(sample, partial(Raising, kind))
    text = f"the strategy raised ZeroDivisionError at {kind.__name__} (one over nothing); the flow goes on without it"
    told = [line for line in story if text in line]
    assert len(told) == len(sample.plan().operators[0].ports)
    assert sum(text in record.getMessage() for record in caplog.records) == len(told)


@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("step", ["export", "at the target"])
def test_a_strategy_that_raises_at_a_failure(step: str, flow: str) -> None:
    with faults_in(step):
        story = run(FLOWS[flow](), partial(Raising, TransferFailed))
    assert any("raised ZeroDivisionError at TransferFailed" in line for line in story)


def test_a_strategy_that_speaks_of_a_worker_that_there_is_not() -> None:
    story = run(FLOWS["group"](), partial(Astray, Event))
    assert any("raised UnknownWorker at RoutingApplied (there is no worker 5, they" in line for line in story)

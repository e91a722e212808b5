"""A migration that fails at any of its steps leaves the result right and the flow alive, and the story says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import cycle

import pytest

from reshape.control.balancing import Balancing
from reshape.control.commands import Command
from reshape.control.events import Event, MetricsCollected
from reshape.control.profile import OperatorProfile, Split
from reshape.control.reshaping.controller import Controller
from reshape.control.routing import RoutingTable
from reshape.control.settings import StrategySettings
from reshape.control.story import Decision, DecisionKind
from reshape.driver.execution import Execution
from reshape.testing import ThreadedFlow

from ..chaos.brain import strategy
from ..chaos.running import balanced_by, fast_control, run_chaos, run_script
from ..chaos.samples import WORKERS, Sample, group, join, sort, window_of_all
from ..chaos.script import each_transfer, late_answer
from ..chaos.transfers import Doings
from ..chaos.valves import Gate, GatedCluster, Valves
from .steps import STEPS, Faults, faults_in

FLOWS: dict[str, Callable[[], Sample]] = {
    "join": lambda: join("full"),
    "group": lambda: group(combined=False),
    "sort": sort,
    "window of all rows": window_of_all,
}
# What is sent, by purpose; only the probe side of a join has state to copy.
SENT = {"hand over", "backlog", "scattered", "held"}
# Of the some 1,400 rows of the most loaded worker.
QUEUED = 200


def kinds_that_fail(step: str, flow: str) -> set[str]:
    kinds = {"hand over"} if step == "export" else SENT
    return kinds | {"replica"} if flow == "join" else kinds


@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("step", STEPS)
def test_each_kind_of_transfer_fails_once_at_each_step(step: str, flow: str) -> None:
    sample, doings = FLOWS[flow](), Doings()
    with faults_in(step) as faults:
        sample.check(run_script(sample, each_transfer, doings))
    kinds = kinds_that_fail(step, flow)
    assert set(faults.hits) == kinds
    # What was taken before its connection broke has not failed: the sender asks. What has no other place to be is sent
    # again without a word.
    told = {"replica": "replicate", "hand over": "hand over", "backlog": "backlog"}
    heard = set() if step == "after sending" else {told[kind] for kind in kinds & told.keys()}
    assert set(doings.failed) == heard, doings.reasons


@pytest.mark.parametrize(("step", "flow"), [*zip(STEPS, cycle(FLOWS), strict=False)])
def test_random_transfers_with_a_step_that_fails(step: str, flow: str) -> None:
    sample, doings = FLOWS[flow](), Doings(500)
    with faults_in(step, 1, 0.4):
        sample.check(run_chaos(sample.plan(), sample.sources, doings))


@pytest.mark.parametrize("flow", FLOWS)
def test_keys_whose_answer_is_late_return(flow: str) -> None:
    sample, doings = FLOWS[flow](), Doings()
    sample.check(run_script(sample, late_answer, doings))
    assert doings.started["cancel"]
    assert not doings.failed, doings.reasons


# The real controller


class Watched:
    """The controller of an input whose workers take no rows until it has begun to help, and whose sources send their
    last rows when it has told of all that it should. It hears of loads when rows are there that can move: those that
    are still on their way to a worker cannot."""

    def __init__(
        self, profile: OperatorProfile, settings: StrategySettings, valves: Valves, wanted: set[DecisionKind]
    ) -> None:
        self._brain = Controller(profile, settings)
        self._valves = valves
        self._wanted = wanted
        self._gate = valves.gates.setdefault(profile.name, Gate())
        self._gate.waits_for = f"a controller that tells of {sorted(kind.value for kind in wanted)}"
        self._by_keys = profile.order_matters
        self._stalled = False

    @property
    def table(self) -> RoutingTable:
        return self._brain.table

    @property
    def decisions(self) -> list[Decision]:
        return self._brain.decisions

    def story(self, worker: int) -> list[str]:
        return self._brain.story(worker)

    def handle(self, event: Event) -> list[Command]:
        if isinstance(event, MetricsCollected) and self._valves.most_waiting < QUEUED:
            if not self._stalled:
                self._stalled = True
                self._valves.stall()
            self._gate.more()
            return []
        commands = self._brain.handle(event)
        told = {decision.kind for decision in self._brain.decisions}
        if isinstance(event, MetricsCollected) and not self._gate.is_open:
            all_told = self._wanted <= told
            # Keys leave a worker when it is through with their rows; rows that are to move have to wait.
            if all_told or (self._by_keys and DecisionKind.STARTED in told):
                self._valves.go_on()
            if all_told:
                self._gate.open()
            self._gate.more()
        return commands


def run_controller(sample: Sample, split: Split | None, wanted: set[DecisionKind], valves: Valves) -> Execution:
    """The controller at the last input of the only operator: the kept side of a join is there before it.

    Each worker has a host to itself, so that all it gives to another one is sent.
    """
    plan = sample.plan(hosts=WORKERS)
    settings = StrategySettings(eta=20.0, tau=20.0, adaptive=None)
    last = f"input {len(plan.operators[0].ports) - 1}"

    def build(profile: OperatorProfile, settings: StrategySettings) -> Controller | Watched:
        if profile.name.endswith(last):
            return Watched(replace(profile, split=split or profile.split), settings, valves, wanted)
        valves.gates.setdefault(profile.name, Gate()).open()
        return Controller(profile, settings)

    seen: list[Execution] = []
    with strategy("watched", build), valves.built_in(), fast_control():
        balanced = balanced_by(plan, Balancing("watched", settings))
        flow = ThreadedFlow(balanced, sample.sources, seen.append, partial(GatedCluster, valves))
        sample.check(flow.run())
    return seen[0]


def kinds_told(execution: Execution) -> Counter[DecisionKind]:
    return Counter(decision.kind for port in execution.control.ports.values() for decision in port.brain.decisions)


def moves_state(flow: str, split: Split | None) -> bool:
    """Helping with records of a group-by moves waiting rows alone."""
    return flow == "join" or split is Split.BY_KEYS


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("split", [None, Split.BY_KEYS])
@pytest.mark.parametrize("flow", ["join", "group"])
def test_the_controller_with_a_step_that_fails(step: str, flow: str, split: Split | None) -> None:
    fails = step != "after sending" and (step != "export" or moves_state(flow, split))
    wanted = {DecisionKind.STARTED, DecisionKind.FAILED} if fails else {DecisionKind.STARTED}
    with faults_in(step, 3, 0.6) as faults:
        execution = run_controller(FLOWS[flow](), split, wanted, Valves())
    _check_told(execution, faults, fails)


def _check_told(execution: Execution, faults: Faults, fails: bool) -> None:
    told = kinds_told(execution)
    assert told[DecisionKind.STARTED]
    if fails:
        assert faults.hits
        assert told[DecisionKind.FAILED]
        assert any("failed (" in line for line in execution.control.story())

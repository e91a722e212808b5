"""All strategies in random clusters: the rules that hold whatever happens (docs/architecture.md)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reshape.control.brain import Brain
from reshape.control.commands import CancelTransfer, Command, HandOverState, ReplicateState, SetRouting
from reshape.control.events import Event, StateTransferred, TransferFailed
from reshape.control.profile import OperatorProfile, Split, StateKind
from reshape.control.routing import RoutingTable
from reshape.control.settings import StrategySettings
from reshape.control.strategies import STRATEGIES, build
from reshape.sim.recorder import OperatorRun
from reshape.sim.scenario import Bursts, Failures, InputPhase, Network, Scenario, Source, Stage
from reshape.sim.simulation import simulate

BY_RECORDS = {"split": Split.BY_RECORDS, "state": StateKind.IMMUTABLE}
SCATTERING = {"split": Split.BY_RECORDS, "state": StateKind.MUTABLE}
BY_KEYS = {"split": Split.BY_KEYS, "state": StateKind.MUTABLE}


class Watched:
    """A brain whose commands are checked on their way out."""

    def __init__(self, brain: Brain, profile: OperatorProfile) -> None:
        self._brain = brain
        self._profile = profile
        self._asked: dict[int, int] = {}  # transfer -> skewed worker
        self._replicas: set[tuple[int, int]] = set()  # (owner, helper) that has been acknowledged
        self._seen: set[int] = set()
        self._handed: dict[int, frozenset[Any]] = {}  # transfer -> keys
        self._returned: set[Any] = set()  # keys whose hand-over failed: their state is where it was
        self._table = brain.table
        self.versions = [brain.table.version]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._brain, name)

    def handle(self, event: Event) -> list[Command]:
        self._seen.add(event.id)
        if isinstance(event, StateTransferred) and event.transfer in self._asked:
            self._replicas.add((self._asked[event.transfer], event.helper))
        if isinstance(event, TransferFailed):
            self._returned |= self._handed.get(event.transfer, frozenset())
        commands = self._brain.handle(event)
        if hasattr(self._brain, "check"):
            self._brain.check()
        for place, command in enumerate(commands):
            assert command.cause in self._seen, "a command without a cause"
            if isinstance(command, ReplicateState):
                self._asked[command.transfer] = command.skewed
            if isinstance(command, HandOverState):
                later = [c.table.version for c in commands[place:] if isinstance(c, SetRouting)]
                assert command.version in later, "a hand-over without its routing table"
                self._handed[command.transfer] = command.keys
            if isinstance(command, CancelTransfer):
                self._returned |= self._handed.get(command.transfer, frozenset())
            if isinstance(command, SetRouting):
                self._check(command.table)
                self._check_order(command.table, commands)
        return commands

    def _check_order(self, table: RoutingTable, commands: list[Command]) -> None:
        """Where order matters, a key changes workers only behind the markers of a hand-over."""
        if not self._profile.order_matters:
            return
        before, self._table = self._table, table
        changed = {key for key in {*before.keys, *table.keys} if before.keys.get(key) != table.keys.get(key)}
        moving = [c.keys for c in commands if isinstance(c, HandOverState) and c.version == table.version]
        behind = frozenset().union(*moving) | self._returned
        assert changed <= behind, f"keys {changed - behind} change workers without their state"
        assert all(len(shares.workers) == 1 for shares in table.keys.values()), "a key is split"
        assert not table.owners, "a partition is split"

    def _check(self, table: RoutingTable) -> None:
        assert table.version >= self.versions[-1], "an old routing version came back"
        self.versions.append(table.version)
        if self._profile.state is not StateKind.IMMUTABLE:
            return
        workers = self._profile.workers
        rules = [*table.owners.items(), *table.buckets.items(), *table.keys.items()]
        for scope, shares in rules:
            assert isinstance(scope, int)
            owner = scope % workers
            for worker in shares.workers:
                assert worker == owner or (owner, worker) in self._replicas, "rows would come before their state"


def play(strategy: str, kind: dict[str, Any], seed: int, failures: Failures | None) -> OperatorRun:
    random = Random(seed)
    workers = random.randint(2, 8)
    profile = OperatorProfile("join", workers, **kind)
    keys = random.randint(1, 4 * workers)

    def phase() -> InputPhase:
        return InputPhase({key: int(random.paretovariate(0.7) * 200) % 100_000 + 1 for key in range(keys)})

    rate = random.choice([2_000.0, 20_000.0])
    chosen = StrategySettings() if random.random() < 0.5 else StrategySettings.paper(tau=500.0, eta=200.0, warmup_s=0.5)
    stage = Stage(profile, random.choice([300.0, 3_000.0]), chosen, random.choice([0, 10**6, 10**9]))
    source = Source((phase(), phase()), rate, random.choice([None, Bursts(0.7, 0.5)]))
    network = Network(0.01, random.choice([0.0, 0.3]), random.choice([0.0, 2.0]), 1e8, 1e8)
    made = Scenario(
        source, (stage,), network, failures, report_s=0.5, watermark_s=random.choice([None, 2.0]), seed=seed
    )
    watched = Watched(build(strategy, profile, chosen), profile)
    (run,) = simulate(made, watched)
    assert watched.versions == sorted(watched.versions)
    return run


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=15)
@given(seed=st.integers(0, 10**9), failing=st.booleans())
def test_immutable_state_is_there_before_its_rows(strategy: str, seed: int, failing: bool) -> None:
    play(strategy, BY_RECORDS, seed, Failures(0.2, 0.2) if failing else None)


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=15)
@given(seed=st.integers(0, 10**9), failing=st.booleans())
def test_scattered_state_is_merged(strategy: str, seed: int, failing: bool) -> None:
    run = play(strategy, SCATTERING, seed, Failures(0.2, 0.2) if failing else None)
    count = len(run.routed)
    parts: dict[tuple[int, int], int] = {}
    for worker, keys in run.scattered.items():
        for key, rows in keys.items():
            if key % count != worker:
                parts[key % count, worker] = parts.get((key % count, worker), 0) + rows
    if strategy != "flux":  # which hands whole mini-partitions over
        assert run.merges.rows == parts
    assert run.merges.count >= len({owner for owner, _ in run.merges.rows})


@pytest.mark.parametrize("strategy", ["none", "flux", "reshape-paper", "reshape"])
@settings(max_examples=15)
@given(seed=st.integers(0, 10**9), failing=st.booleans())
def test_split_by_keys_never_stalls(strategy: str, seed: int, failing: bool) -> None:
    play(strategy, BY_KEYS, seed, Failures(0.2, 0.2) if failing else None)

"""Strategies by name, what they refuse, and what the baselines do with the same events."""

from __future__ import annotations

from typing import Any

import pytest

from reshape.control.commands import CancelTransfer, Command, ReplicateState, SetRouting
from reshape.control.errors import ParameterError, StrategyRefused
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
from reshape.control.profile import OperatorProfile, Partitioning, Split, StateKind
from reshape.control.reshaping.controller import Controller
from reshape.control.routing import RoutingTable, Shares
from reshape.control.settings import StrategySettings
from reshape.control.story import DecisionKind
from reshape.control.strategies import STRATEGIES, build

from .desk import none_of, only

JOIN = OperatorProfile("join", 3)
PAPER = StrategySettings.paper(warmup_s=0.0)


class Feed:
    """Gives a brain the same skew again and again; keys 0 to 2 belong to worker 0, mini-partitions likewise."""

    def __init__(self, strategy: str, profile: OperatorProfile = JOIN, settings: StrategySettings = PAPER) -> None:
        self.brain = build(strategy, profile, settings)
        self.events = 0
        self.routed = [0, 0, 0]

    def event(self, kind: type[Event], *fields: Any) -> list[Command]:
        self.events += 1
        commands = self.brain.handle(kind(self.events, float(self.events), *fields))
        assert all(command.cause == self.events for command in commands)
        return commands

    def report(self, keys: dict[int, int], workload: tuple[int, ...] = (900, 0, 0)) -> list[Command]:
        self.routed = [a + b for a, b in zip(self.routed, (sum(keys.values()), 100, 100), strict=True)]
        counts = tuple(self.routed)
        columns = (workload, counts, counts, counts, (0, 0, 0))
        buckets = {3 * number: rows for number, rows in enumerate(keys.values())}
        return self.event(MetricsCollected, *columns, None, {0: keys}, buckets)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_is_a_brain(strategy: str) -> None:
    feed = Feed(strategy)
    assert feed.brain.table == RoutingTable()
    assert feed.brain.decisions == []
    assert feed.brain.story(0) == []
    version = 0
    for _ in range(3):
        feed.report({0: 500, 3: 200, 6: 100})
        for kind, fields in (
            (StateTransferred, (1, 1, 10, 0.1)),
            (TransferFailed, (2, 1, "?")),
            (RoutingApplied, (1,)),
            (BacklogMoved, (1, 5)),
        ):
            feed.event(kind, *fields)
            assert feed.brain.table.version >= version
            version = feed.brain.table.version
    feed.event(MetricsCollected, (), (), (), (), ())
    feed.event(InputEnded)
    feed.event(Drained)


def test_an_unknown_strategy_is_refused_by_name() -> None:
    with pytest.raises(ParameterError) as caught:
        build("magic", JOIN)
    assert caught.value.parameter == "strategy"
    assert "magic" in str(caught.value)
    assert "reshape-paper" in str(caught.value)


def test_defaults_are_what_a_strategy_is_known_for() -> None:
    paper, ours = build("reshape-paper", JOIN), build("reshape", JOIN)
    assert isinstance(paper, Controller)
    assert isinstance(ours, Controller)
    assert paper.tau(0) == 100
    assert ours.tau(0) == float("inf"), "derived from what will be observed"


@pytest.mark.parametrize(
    ("profile", "why"),
    [
        (OperatorProfile("sort", 3, state=StateKind.MUTABLE, partitioning=Partitioning.RANGE), "range"),
        (OperatorProfile("median", 3, state=StateKind.MUTABLE, combinable=False), "combined"),
        (OperatorProfile("ordered", 3, split=Split.BY_KEYS), "order"),
    ],
)
def test_partial_key_grouping_refuses_what_it_cannot_do(profile: OperatorProfile, why: str) -> None:
    with pytest.raises(StrategyRefused, match=why) as caught:
        build("pkg", profile)
    assert caught.value.parameter == "strategy"
    assert profile.name in str(caught.value)


def test_partial_key_grouping_sets_its_rule_once() -> None:
    feed = Feed("pkg", OperatorProfile("count", 3, state=StateKind.MUTABLE))
    assert only(feed.report({0: 500}), SetRouting).table.two_choices
    assert feed.report({0: 500}) == []
    assert feed.event(Drained) == []


def test_no_mitigation_does_nothing() -> None:
    feed = Feed("none")
    assert [feed.report({0: 500}) for _ in range(3)] == [[], [], []]


def test_flow_join_shares_overloaded_keys_half_and_half_once() -> None:
    feed = Feed("flow-join")
    sent = only(feed.report({0: 900, 3: 10}), ReplicateState)
    table = only(feed.event(StateTransferred, sent.transfer, 1, 10, 0.1), SetRouting).table
    assert {key: shares.share_of(1) for key, shares in table.keys.items()} == {0: Shares.of(0, {}).share_of(0) / 2}
    assert [feed.report({0: 10, 3: 900}) for _ in range(3)] == [[], [], []], "whatever comes later"


def test_flow_join_says_when_no_key_is_heavy() -> None:
    feed = Feed("flow-join")
    feed.report(dict.fromkeys(range(0, 60, 3), 20))
    assert [d.kind for d in feed.brain.decisions] == [DecisionKind.REFUSED]


def test_flux_moves_whole_mini_partitions() -> None:
    feed = Feed("flux")
    sent = only(feed.report({0: 500, 3: 200, 6: 100}), ReplicateState)
    table = only(feed.event(StateTransferred, sent.transfer, 1, 10, 0.1), SetRouting).table
    assert table.buckets
    assert all(shares == Shares.whole(1) for shares in table.buckets.values())
    assert table.keys == table.owners == {}


def test_flux_cannot_split_one_hot_key() -> None:
    feed = Feed("flux")
    assert none_of(feed.report({0: 900}), ReplicateState, SetRouting)
    assert [d.kind for d in feed.brain.decisions] == [DecisionKind.REFUSED]


@pytest.mark.parametrize("strategy", ["flux", "flow-join"])
def test_a_failed_move_of_a_baseline_changes_no_routing(strategy: str) -> None:
    feed = Feed(strategy)
    sent = only(feed.report({0: 700, 3: 200, 6: 100}), ReplicateState)
    assert feed.event(TransferFailed, sent.transfer, 1, "gone") == []
    assert feed.brain.table == RoutingTable()
    assert feed.brain.decisions[-1].kind is DecisionKind.FAILED
    assert none_of(feed.event(StateTransferred, sent.transfer, 1, 10, 0.1), SetRouting, CancelTransfer)


def test_flux_tries_again_after_a_failure() -> None:
    feed = Feed("flux")
    sent = only(feed.report({0: 500, 3: 200, 6: 100}), ReplicateState)
    feed.event(TransferFailed, sent.transfer, 1, "gone")
    assert not none_of(feed.report({0: 500, 3: 200, 6: 100}), ReplicateState)

"""The paper's worked examples, with the paper's numbers, decided by the real brains."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pytest

from reshape.control.baselines.flow_join import FlowJoin
from reshape.control.commands import Command, HandOverState, ReplicateState, SetRouting
from reshape.control.events import Event, MetricsCollected, RoutingApplied, StateTransferred
from reshape.control.profile import OperatorProfile, Split
from reshape.control.reshaping.controller import Controller
from reshape.control.reshaping.helpers import Outlook, choose_helpers, reachable_reduction
from reshape.control.reshaping.shares import record_shares
from reshape.control.reshaping.threshold import Change, Forecast, Threshold, adjust_threshold, start_earlier
from reshape.control.routing import Key, RoutingTable, Shares
from reshape.control.sensing.reduction import load_reduction, max_load_reduction
from reshape.control.settings import AdaptiveTau, FirstPhase, StrategySettings

from ..shares import worker_at

# Figure 1: percent of all tweets per month; a month belongs to the join worker J(month mod 6), J6 being 0.
# The figures for workers that no example uses are chosen so that all add up to 100.
MONTHS = {"Jan": 8, "Feb": 4, "Mar": 9, "Apr": 1, "May": 7, "Jun": 1}
MONTHS |= {"Jul": 8, "Aug": 7, "Sep": 9, "Oct": 6, "Nov": 15, "Dec": 25}
OWNER = {month: number % 6 for number, month in enumerate(MONTHS, start=1)}
J2, J4, J5, J6 = 2, 4, 5, 0


class Cluster:
    """A body without time of its own: rows are put into queues as the brain's table says; all answers are instant."""

    def __init__(self, brain: Controller | FlowJoin, owners: dict[str, int], workers: int) -> None:
        self.brain = brain
        self.owners = owners
        self.table = RoutingTable()
        self.queues: list[list[str]] = [[] for _ in range(workers)]
        self.routed = [0] * workers
        self.dealt: Counter[object] = Counter()
        self.keys: dict[int, Counter[Key]] = {}
        self.commands: list[Command] = []
        self.events = 0

    def arrive(self, rows: dict[str, int]) -> None:
        """Deal out rows, the keys evenly mixed."""
        most = max(rows.values())
        for turn in range(most):
            for key, count in rows.items():
                if (turn + 1) * count // most > turn * count // most:
                    self.send(key)

    def send(self, key: str) -> None:
        owner = self.owners[key]
        rule = self.table.shares(key, owner, owner)
        worker = owner if rule is None else worker_at(rule, self.dealt[owner])
        self.dealt[owner] += 1
        self.routed[owner] += 1
        self.keys.setdefault(owner, Counter())[key] += 1
        self.queues[worker].append(key)

    def report(self, time: float, remaining: int | None = None) -> None:
        sizes = [len(queue) for queue in self.queues]
        none = [0] * len(sizes)
        keys, self.keys = self.keys, {}
        self.tell(
            MetricsCollected(
                self.next_id(), time, sizes, none, list(self.routed), sizes, none, remaining, keys, dict[int, int]()
            )
        )

    def next_id(self) -> int:
        self.events += 1
        return self.events

    def tell(self, event: Event) -> None:
        handed: list[HandOverState] = []
        for command in self.brain.handle(event):
            self.commands.append(command)
            if isinstance(command, ReplicateState):
                for helper in command.helpers:
                    self.tell(StateTransferred(self.next_id(), event.time, command.transfer, helper, 0, 0.0))
            elif isinstance(command, HandOverState):
                handed.append(command)
            elif isinstance(command, SetRouting):
                self.table = command.table
                self.dealt.clear()
                self.tell(RoutingApplied(self.next_id(), event.time, command.table.version))
                for moved in handed:
                    self.tell(StateTransferred(self.next_id(), event.time, moved.transfer, moved.target, 0, 0.0))


def incoming(table: RoutingTable, loads: dict[str, int], owners: dict[str, int]) -> dict[int, dict[str, Fraction]]:
    """What each worker receives per 100 rows under a table."""
    result: dict[int, dict[str, Fraction]] = {}
    for key, load in loads.items():
        owner = owners[key]
        rule = table.shares(key, owner, owner) or Shares.whole(owner)
        for worker, share in rule.parts:
            result.setdefault(worker, {})[key] = load * share
    return result


def production(table: RoutingTable, key: str) -> Fraction:
    """Rows of a month produced per t, all workers being saturated and equally fast (§3.1 a)."""
    total = Fraction(0)
    for received in incoming(table, MONTHS, OWNER).values():
        total += received.get(key, Fraction(0)) / sum(received.values())
    return total


def months_run(split: Split, pairs: dict[int, tuple[int, ...]], first_phase: FirstPhase = FirstPhase.OFF) -> Cluster:
    settings = StrategySettings(
        eta=1, tau=1, adaptive=None, backlog=False, helpers=1, fixed_helpers=pairs, first_phase=first_phase
    )
    cluster = Cluster(Controller(OperatorProfile("join", 6, split), settings), OWNER, 6)
    cluster.arrive(MONTHS)
    cluster.report(1.0)
    return cluster


def test_unmitigated_october_and_december_look_alike() -> None:
    """§3.1 a: 6/7 t and 25/26 t."""
    assert production(RoutingTable(), "Oct") == Fraction(6, 7)
    assert production(RoutingTable(), "Dec") == Fraction(25, 26)


def test_split_by_keys_hardly_changes_what_is_shown() -> None:
    """§3.1 a: June moves from J6 to J4; 6/8 t and t."""
    table = months_run(Split.BY_KEYS, {J6: (J4,)}).table
    assert set(table.keys) == {"Jun"}
    assert table.keys["Jun"] == Shares.whole(J4)
    assert production(table, "Oct") == Fraction(6, 8)
    assert production(table, "Dec") == 1


def test_split_by_records_shows_the_true_ratio() -> None:
    """§3.1 a: about 9/26 of J6's rows go to J4, whose loads become 16 to 17; December to October about 24:6."""
    table = months_run(Split.BY_RECORDS, {J6: (J4,)}).table
    share = table.owners[J6].share_of(J4)
    assert share == Fraction(19, 52)  # 9.5 of 26: the paper rounds to 9
    loads = {worker: sum(received.values()) for worker, received in incoming(table, MONTHS, OWNER).items()}
    assert 16 <= loads[J4] <= 17
    assert 16 <= loads[J6] <= 17
    shown = production(table, "Dec") / production(table, "Oct")
    assert shown == pytest.approx(24 / 6, rel=0.05)


def test_nine_of_twenty_six_as_the_paper_rounds_it() -> None:
    """§3.1 a with 9 December rows of every 26: loads 16 and 17, 6/16 t and about 24/16 t."""
    table = RoutingTable(1, keys={"Dec": Shares.of(J6, {J4: Fraction(9, 25)})})
    loads = {worker: sum(received.values()) for worker, received in incoming(table, MONTHS, OWNER).items()}
    assert (loads[J4], loads[J6]) == (16, 17)
    assert production(table, "Oct") == Fraction(6, 16)
    assert float(production(table, "Dec")) == pytest.approx(24 / 16, rel=0.01)


def test_may_moves_from_j5_to_j2() -> None:
    """§3.2: split by keys mitigates this pair; the loads become 18 and 15."""
    table = months_run(Split.BY_KEYS, {J5: (J2,)}).table
    assert set(table.keys) == {"May"}
    loads = {worker: sum(received.values()) for worker, received in incoming(table, MONTHS, OWNER).items()}
    assert (loads[J2], loads[J5]) == (18, 15)


@pytest.mark.parametrize(("first_phase", "october", "december"), [(FirstPhase.ALL, 16, 64), (FirstPhase.OFF, 22, 58)])
def test_first_phase_shows_the_ratio_early(first_phase: FirstPhase, october: int, december: int) -> None:
    """§3.2: what is shown when both workers have processed 40 rows; 2 October and 8 December rows come a second."""
    owners = {"Oct": 0, "Dec": 1}
    settings = StrategySettings(eta=30, tau=30, adaptive=None, backlog=False, helpers=1, first_phase=first_phase)
    cluster = Cluster(Controller(OperatorProfile("join", 2), settings), owners, 2)
    for second in range(1, 20):
        cluster.arrive({"Oct": 2, "Dec": 8})
        cluster.report(float(second))
        if second == 5:
            assert [len(queue) for queue in cluster.queues] == [10, 40]
    assert cluster.table.owners[1].share_of(0) == Fraction(3, 8)
    shown = Counter(cluster.queues[0][:40] + cluster.queues[1][:40])
    assert (shown["Oct"], shown["Dec"]) == (october, december)


def test_three_of_eight() -> None:
    """§3.2: the share of phase two for 8 to 2."""
    assert record_shares(8, {4: 2}) == {4: Fraction(3, 8)}


@pytest.mark.parametrize(("tau", "reduction"), [(400, 400), (480, 400), (560, 300), (640, 200), (720, 100), (800, 0)])
def test_load_reduction_depends_on_tau(tau: int, reduction: int) -> None:
    """§4.2: S gets 1,000 and H 200 rows; 400 are saved when mitigation starts at 600/120, none at tau = D."""
    settings = StrategySettings(eta=1, tau=tau, adaptive=None, backlog=False, helpers=1)
    cluster = Cluster(Controller(OperatorProfile("join", 2), settings), {"S": 0, "H": 1}, 2)
    for step in range(1, 41):
        cluster.arrive({"S": 25, "H": 5})
        cluster.report(float(step), remaining=1200 - 30 * step)
    mitigated = {worker: float(len(queue)) for worker, queue in enumerate(cluster.queues)}
    # One step of 25 rows is the grain of this body.
    assert load_reduction({0: 1000.0, 1: 200.0}, mitigated) == pytest.approx(reduction, abs=25)
    assert max_load_reduction(1000, 200, 1) == 400


class TestAlgorithm1:
    """§4.3.2, every branch."""

    LOW, HIGH = 98.0, 110.0

    def look(self, gap: float, tau: float, error: float) -> tuple[bool, float, Change]:
        found = adjust_threshold(gap, tau, error, self.LOW, self.HIGH, tau + 50)
        return found.start, found.tau, found.change

    def test_passed_but_imprecise_starts_and_raises_tau(self) -> None:
        assert self.look(10, 10, 120) == (True, 60, Change.INCREASED)

    def test_passed_and_precise_starts_and_keeps_tau(self) -> None:
        assert self.look(500, 500, 100) == (True, 500, Change.KEPT)

    def test_passed_and_very_precise_starts_and_keeps_tau(self) -> None:
        assert self.look(500, 500, 90) == (True, 500, Change.KEPT)

    def test_not_passed_but_very_precise_starts_at_once_with_lower_tau(self) -> None:
        assert self.look(700, 1000, 97) == (True, 700, Change.DECREASED)

    def test_not_passed_and_not_precise_enough_waits(self) -> None:
        assert self.look(700, 1000, 100) == (False, 1000, Change.KEPT)

    def test_not_passed_and_imprecise_waits(self) -> None:
        assert self.look(5, 10, 120) == (False, 10, Change.KEPT)

    def test_nothing_is_started_without_a_gap(self) -> None:
        assert self.look(0, 10, 1) == (False, 10, Change.KEPT)

    def test_three_adjustments_at_most(self) -> None:
        """§7.6: up to three adjustments of 50."""
        threshold = Threshold(10, AdaptiveTau(98, 110, 50, 3, floor=1))
        taus = []
        for _ in range(5):
            threshold.look(threshold.tau, Forecast(error=120, gap=250, gap_left=250, windows=9))
            taus.append(threshold.tau)
        assert taus == [60, 110, 160, 160, 160]


def test_start_earlier_by_what_comes_during_migration() -> None:
    """§6.1: tau' = tau - (f_S - f_H) t M."""
    assert start_earlier(1000, 0.3 - 0.1, 500, 2) == pytest.approx(800)


def test_helpers_until_chi_falls() -> None:
    """§6.2, Figure: LR_max decides for h1, F for h2, and h3 would lower it; so h1 and h2 help."""
    skewed, loads = 0.5, [0.05, 0.05, 0.05]
    outlook = Outlook(total=1000, remaining=800, rows_per_s=10)

    def migration_s(helpers: int) -> float:
        return 4 + 20 * (helpers - 1)

    chi = [reachable_reduction(skewed, sum(loads[:n]), n, migration_s(n), outlook) for n in (1, 2, 3)]
    future = [(800 - migration_s(n) * 10) * skewed for n in (1, 2, 3)]
    best = [max_load_reduction(skewed, sum(loads[:n]), n, 1000) for n in (1, 2, 3)]
    assert chi[0] == best[0] < future[0]
    assert chi[1] == future[1] < best[1]
    assert chi[0] < chi[1]
    assert chi[2] == future[2] < chi[1]
    candidates = [(worker, load) for worker, load in enumerate(loads, start=1)]
    assert choose_helpers(skewed, candidates, migration_s, outlook, 3) == (1, 2)


def test_flow_join_does_not_see_the_distribution_change() -> None:
    """§7.8: key 0 is shared half and half for ever; after the change the helper gets 50 %, the skewed worker 30 %."""
    owners = {"0": 0, "10": 10} | {str(key): key % 40 for key in range(1, 42) if key != 10}
    first = {"0": 800} | {str(key): 5 for key in range(1, 42)}
    later = {"0": 600, "10": 200} | {str(key): 5 for key in range(1, 42) if key != 10}
    settings = replace(StrategySettings.paper(), fixed_helpers={0: (10,)})
    brain = FlowJoin(OperatorProfile("join", 40), settings)
    cluster = Cluster(brain, owners, 40)
    for second in range(1, 4):
        cluster.arrive(first)
        cluster.report(float(second))
    received = incoming(cluster.table, later, owners)
    total = sum(later.values())
    assert float(received[10]["0"] + received[10]["10"]) / total == pytest.approx(0.50, abs=0.005)
    assert float(received[0]["0"]) / total == pytest.approx(0.30, abs=0.005)
    assert set(cluster.table.keys) == {"0"}

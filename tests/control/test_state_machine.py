"""Whatever happens in whatever order, the rules of DESIGN.md hold, and the brain neither raises nor falls asleep."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from reshape.control.commands import HandOverState, MoveBacklog, SetRouting
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
from reshape.control.profile import OperatorProfile, Split, StateKind
from reshape.control.settings import AdaptiveTau, FirstPhase, StrategySettings

from .miniature import KEYS_PER_OWNER, ROUTERS, SPEED, Miniature

thresholds = st.sampled_from(
    [
        {"eta": 10.0, "tau": 10.0, "adaptive": None},
        {"eta": 10.0, "tau": 10.0},
        {"eta": 10.0, "tau": 10.0, "adaptive": AdaptiveTau(low=50.0, high=100.0, increase_by=5.0)},
        {},  # derived from what is observed
        {"metric": "busy"},
    ]
)
plans = st.fixed_dictionaries(
    {
        "backlog": st.booleans(),
        "helpers": st.sampled_from([None, 1, 2]),
        "first_phase": st.sampled_from(FirstPhase),
        "model": st.sampled_from(["mean", "recency"]),
    }
)
seeds = st.integers(0, 2**16)
small = st.integers(0, 20)
EXAMPLES = int(os.environ.get("RESHAPE_EXAMPLES", "250"))


class BrainInAnyWeather(RuleBasedStateMachine):
    body: Miniature

    @initialize(
        workers=st.integers(2, 5),
        split=st.sampled_from(Split),
        state=st.sampled_from(StateKind),
        state_bytes=st.sampled_from([0, 1000, 10**9]),
        threshold=thresholds,
        plan=plans,
    )
    def start(
        self,
        workers: int,
        split: Split,
        state: StateKind,
        state_bytes: int,
        threshold: dict[str, Any],
        plan: dict[str, Any],
    ) -> None:
        profile = OperatorProfile("operator", workers, split, state)
        self.body = Miniature(profile, StrategySettings(**threshold, **plan), state_bytes)
        self.busy = threshold.get("metric") == "busy"
        self.steps = 0

    def pick(self, index: int, size: int) -> int:
        return index % size

    # -- what happens to the workers -----------------------------------------------------------------------------

    @rule(
        seed=seeds,
        hot=small,
        heat=st.integers(0, 10),
        periods=st.integers(1, 12),
        after=st.sampled_from([0.1, 1.0]),
        answers=st.integers(0, 8),
        luck=st.sampled_from([0.5, 0.9, 1.0]),
    )
    def live(self, seed: int, hot: int, heat: int, periods: int, after: float, answers: int, luck: float) -> None:
        """Some report periods in which rows come and go and messages arrive, more or less soon, or not at all."""
        self.steps += 1
        chance = Random(seed)
        for _ in range(periods):
            self.body.arrivals(
                chance.randrange(2**32), chance.randrange(80), self.pick(hot, len(self.body.workers)), heat
            )
            for worker in self.body.workers:
                self.body.process(worker, chance.randrange(2 * SPEED))
            self.body.report(after if chance.random() < 0.95 else 40.0, busy=self.busy)
            for _ in range(chance.randrange(answers + 1)):
                self.something_arrives(chance, luck)
            self.body.lose_nothing()

    def something_arrives(self, chance: Random, luck: float) -> None:
        """One step of one thing under way, or one message; without luck it fails or is lost."""
        body, lucky = self.body, chance.random() < luck
        steps: list[Callable[[], object]] = []
        for channel in [name for name, queue in body.answers.items() if queue]:
            steps.append(partial(body.deliver, channel) if lucky else body.answers[channel].popleft)
        if body.copies:
            steps.append(partial(body.finish_copy, chance.randrange(len(body.copies)), success=lucky))
        if body.moves:
            steps.append(partial(body.finish_move, chance.randrange(len(body.moves)), success=lucky))
        if body.open_hand_overs():
            steps.append(partial(body.finish_hand_over, chance.choice(body.open_hand_overs()), success=lucky))
        steps += [partial(body.use_next_table, router) for router, inbox in enumerate(body.inboxes) if inbox]
        if steps:
            chance.choice(steps)()
        body.return_states()

    @rule(seed=seeds, hot=small, heat=st.integers(0, 10), rows=st.integers(1, 120))
    def rows_come(self, seed: int, hot: int, heat: int, rows: int) -> None:
        self.body.arrivals(seed, rows, self.pick(hot, len(self.body.workers)), heat)

    @rule(seed=seeds, most=st.integers(1, 100))
    def rows_go(self, seed: int, most: int) -> None:
        chance = Random(seed)
        for worker in self.body.workers:
            self.body.process(worker, chance.randrange(most))

    @rule(after=st.sampled_from([0.0, 0.1, 1.0, 1.0, 5.0, 40.0, 500.0]))
    def report(self, after: float) -> None:
        self.steps += 1
        self.body.report(after, busy=self.busy)

    @precondition(lambda self: self.body.reports)
    @rule(index=small, same_id=st.booleans())
    def report_again(self, index: int, same_id: bool) -> None:
        """Late, doubled, or with a new number."""
        old = self.body.reports[-1 - self.pick(index, len(self.body.reports))]
        if same_id:
            self.body.give(old)
        else:
            self.body.tell(MetricsCollected, *[getattr(old, name) for name in list(old.__slots__)])

    @precondition(lambda self: self.body.reports)
    @rule(column=st.sampled_from(["workload", "processed", "routed", "received", "state_bytes"]), width=small)
    def report_nonsense(self, column: str, width: int) -> None:
        if width != len(self.body.workers):
            changes: dict[str, Any] = {column: (7,) * width}
            nonsense = replace(self.body.reports[-1], **changes)
            self.body.tell(MetricsCollected, *[getattr(nonsense, name) for name in list(nonsense.__slots__)])

    # -- messages and transfers ----------------------------------------------------------------------------------

    @rule(router=st.integers(0, ROUTERS - 1))
    def router_takes_a_table(self, router: int) -> None:
        self.body.use_next_table(router)

    @precondition(lambda self: any(self.body.answers.values()))
    @rule(index=small, lost=st.sampled_from([False, False, False, True]))
    def answer_arrives_or_is_lost(self, index: int, lost: bool) -> None:
        channels = [name for name, queue in self.body.answers.items() if queue]
        channel = channels[self.pick(index, len(channels))]
        if lost:
            self.body.answers[channel].popleft()
        else:
            self.body.deliver(channel)

    @precondition(lambda self: self.body.copies)
    @rule(index=small, success=st.booleans())
    def copy_ends(self, index: int, success: bool) -> None:
        self.body.finish_copy(self.pick(index, len(self.body.copies)), success=success)

    @precondition(lambda self: self.body.moves)
    @rule(index=small, success=st.booleans())
    def move_ends(self, index: int, success: bool) -> None:
        self.body.finish_move(self.pick(index, len(self.body.moves)), success=success)

    @precondition(lambda self: self.body.open_hand_overs())
    @rule(index=small, success=st.booleans())
    def hand_over_ends(self, index: int, success: bool) -> None:
        known = self.body.open_hand_overs()
        self.body.finish_hand_over(known[self.pick(index, len(known))], success=success)
        self.body.return_states()

    @rule(transfer=st.integers(10**6, 10**6 + 5), worker=small, kind=st.integers(0, 3))
    def answer_that_nobody_waits_for(self, transfer: int, worker: int, kind: int) -> None:
        events: list[tuple[type[Event], tuple[object, ...]]] = [
            (TransferFailed, (transfer, worker, "from another life")),
            (StateTransferred, (transfer, worker, 10, 0.1)),
            (BacklogMoved, (transfer, worker)),
            (RoutingApplied, (transfer,)),
        ]
        chosen, fields = events[kind]
        self.body.tell(chosen, *fields)

    @rule()
    def all_is_answered(self) -> None:
        self.body.answer_all()

    @precondition(lambda self: self.steps > 12 and not self.body.ended)
    @rule()
    def input_ends(self) -> None:
        self.body.ended = True
        self.body.tell(InputEnded)

    # -- what always holds ---------------------------------------------------------------------------------------

    @invariant()
    def no_row_is_lost_or_doubled(self) -> None:
        if hasattr(self, "body"):
            self.body.lose_nothing()

    def teardown(self) -> None:
        if not hasattr(self, "body"):
            return
        body = self.body
        body.answer_all()
        body.work_off()
        if not body.ended:
            for hot in (0, len(body.workers) - 1):
                self.must_act_again(hot)
            body.ended = True
            body.tell(InputEnded)
        body.answer_all()
        body.work_off()
        body.tell(Drained)
        assert not body.brain.pairs, "a mitigation outlives the input"
        body.report(1.0, busy=self.busy)
        late = replace(body.reports[-1], id=10**6, time=body.now + 1, workload=(10**4, *[0] * (len(body.workers) - 1)))
        body.give(late)
        assert not body.brain.pairs, "a mitigation starts after the end"

    def must_act_again(self, hot: int) -> None:
        """After a rest, a clean strong skew: rows of the hot worker must be sent to another one."""
        body = self.body
        body.answer_all()
        body.work_off()
        body.report(1e6, busy=self.busy)
        body.answer_all()
        before = body.diverted[hot]
        patience = 80 + 4 * len(body.reports)
        for step in range(patience):
            for _ in range(40 // KEYS_PER_OWNER):
                for which in range(KEYS_PER_OWNER):
                    body.send(step % ROUTERS, hot + which * len(body.workers))
            for worker in body.workers:
                body.send(step % ROUTERS, worker)
                body.process(worker, SPEED)
            body.report(1.0, busy=self.busy)
            body.answer_all()
            if body.diverted[hot] > before:
                note(f"acted after {step} reports")
                return
        told = "\n".join(body.brain.story(hot)[-12:])
        sent = [type(c).__name__ for c in body.commands if isinstance(c, SetRouting | MoveBacklog | HandOverState)][-5:]
        raise AssertionError(f"nothing is done about {len(body.queues[hot])} rows at worker {hot}: {sent}\n{told}")


def test_a_hand_over_that_was_done_but_never_heard_of_is_undone() -> None:
    """Its state went to the helper, the answer was lost: the brain puts the keys back, and no row misses its state."""
    profile = OperatorProfile("operator", 2, Split.BY_KEYS, StateKind.MUTABLE)
    body = Miniature(profile, StrategySettings(eta=10.0, tau=10.0, adaptive=None))
    for period in range(120):
        for key in (0, 0, 2, 4, 6, 1):
            for router in range(ROUTERS):
                body.send(router, key)
        for worker in body.workers:
            body.process(worker, 9)
        body.report(1.0)
        for known in body.open_hand_overs():
            body.finish_hand_over(known, success=True)
        for channel in list(body.answers):
            while body.answers[channel]:
                if channel == "routing" or period > 80:
                    body.deliver(channel)
                else:
                    body.answers[channel].popleft()
        body.use_next_table(period % ROUTERS)
        body.return_states()
        body.lose_nothing()
    stages = [known.stage for known in body.hand_overs.values()]
    assert "returned" in stages
    assert "done" in stages
    body.answer_all()
    body.work_off()


BrainInAnyWeather.TestCase.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
    report_multiple_bugs=False,
)
TestBrainInAnyWeather = BrainInAnyWeather.TestCase
